//! Settings of the service.

use messenger::Service;
use runtime::Env;
use testkit::livekit::SECRET;

use crate::media_service::livekit;

/// RULE-MSG-049: if only some settings of LiveKit are set, the error names each missing one. The
/// secret is in no error.
#[test]
fn livekit_settings_are_all_set_or_all_unset() {
    let all = livekit().settings();
    // Each number is a subset of the settings: bit `at` is 1 if the setting at `at` is given.
    for given in 0..1_u32 << all.len() {
        let is_given = move |at: usize| (given >> at) & 1 == 1;
        let settings = all.clone();
        let mut env = Env::new(move |name| {
            let at = settings.iter().position(|(known, _)| *known == name)?;
            is_given(at).then(|| settings[at].1.clone())
        });
        let config = service::configure::<Service>(&mut env);
        let errors = env.finish(config).err().map(|error| error.to_string()).unwrap_or_default();
        for (at, (name, _)) in all.iter().enumerate() {
            let is_missing = given != 0 && !is_given(at);
            assert_eq!(errors.contains(&format!("{name} is missing")), is_missing, "{given:04b}: {errors}");
        }
        assert!(!errors.contains(SECRET), "{errors}");
    }
}
