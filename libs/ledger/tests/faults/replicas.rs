//! Replicas that come and go.

use std::time::{Duration, Instant};

use crate::rig::{Rig, eventually};

#[tokio::test]
async fn one_three_one_replicas_under_load() {
    let rig = Rig::new().await;
    let writers = rig.start("serve", &[]).await;
    let mut replicas = vec![rig.work().await];
    rig.committed(200).await;
    replicas.extend([rig.work().await, rig.work().await]);
    rig.committed(500).await;
    let epoch = rig.epoch().await;
    let owner = replicas.iter().position(|replica| replica.relayed(epoch)).unwrap();
    replicas.swap_remove(owner).kill();
    let killed = Instant::now();
    eventually("a takeover", async || rig.epoch().await > epoch).await;
    let takeover = killed.elapsed();
    eprintln!("taken over after {takeover:.1?}");
    // Six seconds by the rule; the rest is what a busy machine adds.
    assert!(takeover < Duration::from_secs(15), "{takeover:?}");
    rig.committed(800).await;
    assert!(replicas.remove(0).terminate().await.success());
    rig.committed(1000).await;
    assert!(writers.terminate().await.success());
    rig.clean().await;
}

#[tokio::test]
async fn a_service_that_is_stopped_sends_what_it_has_written() {
    let rig = Rig::new().await;
    let service = rig.start("both", &[]).await;
    rig.committed(300).await;
    assert!(service.terminate().await.success());
    assert_eq!(rig.number("select count(*) from outbox").await, 0);
    let _worker = rig.work().await;
    rig.clean().await;
}

/// Nobody else can take it then, but the relay cannot know: it stops, and asks again.
#[tokio::test]
async fn a_relay_that_cannot_renew_its_lease_in_time_stops_relaying() {
    let rig = Rig::new().await;
    let worker = rig.work().await;
    rig.step().await;
    rig.applied(8).await;
    let epoch = rig.epoch().await;
    let lock = rig.lock("outbox_lease").await;
    eventually("its giving up", async || worker.logged("the lease was not renewed in time").is_some()).await;
    rig.step().await;
    lock.release().await;
    eventually("the next tenure", async || rig.epoch().await > epoch).await;
    rig.clean().await;
}
