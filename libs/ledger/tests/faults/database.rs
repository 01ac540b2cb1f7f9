//! A database that breaks off.

use std::time::Duration;

use crate::rig::Rig;

#[tokio::test]
async fn connections_that_are_terminated_under_load_cost_nothing() {
    let rig = Rig::new().await;
    let service = rig.start("both", &[]).await;
    rig.committed(50).await;
    let mut terminated = 0;
    for _ in 0..25 {
        terminated += rig.disconnect().await;
        tokio::time::sleep(Duration::from_millis(rand::random_range(100..500))).await;
    }
    assert!(terminated > 25, "{terminated} connections");
    let so_far = rig.number("select sum(n)::bigint from account").await;
    rig.committed(so_far + 50).await;
    assert!(service.terminate().await.success());
    let _worker = rig.work().await;
    rig.clean().await;
}
