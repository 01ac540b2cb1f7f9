//! Shares of callers of what a process does at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;

/// A number of permits for each caller.
///
/// The semaphore of a caller exists while a request waits for it or has one of its permits, so the
/// memory does not depend on the number of callers.
pub struct Shares<K> {
    permits: usize,
    semaphores: Mutex<HashMap<K, Weak<Semaphore>>>,
}

impl<K: Hash + Eq> Shares<K> {
    /// Gives each caller this number of permits.
    pub fn new(permits: usize) -> Self {
        Self { permits, semaphores: Mutex::default() }
    }

    /// Returns the semaphore of a caller, for `acquire_owned`.
    pub fn of(&self, caller: K) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = semaphores.get(&caller).and_then(Weak::upgrade);
        let semaphore = semaphore.unwrap_or_else(|| Arc::new(Semaphore::new(self.permits)));
        semaphores.insert(caller, Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::Shares;

    /// RULE-ALL-027: a caller has its own permits, which last as long as the holder.
    #[test]
    fn caller_has_its_own_permits() {
        let shares = Shares::new(2);
        let first = shares.of("a").try_acquire_owned().unwrap();
        let second = shares.of("a").try_acquire_owned().unwrap();
        assert!(shares.of("a").try_acquire_owned().is_err());
        assert!(shares.of("b").try_acquire_owned().is_ok());
        drop(first);
        assert!(shares.of("a").try_acquire_owned().is_ok());
        drop(second);
        assert_eq!(shares.of("a").available_permits(), 2);
    }
}
