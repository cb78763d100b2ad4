//! A token bucket: so many at once, so many a second. Pure.

use std::time::{Duration, Instant};

/// Tokens as of an instant.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    burst: f64,
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn new(burst: u32, per_second: u32, now: Instant) -> Self {
        Self { burst: burst.into(), per_second: f64::from(per_second.max(1)), tokens: burst.into(), at: now }
    }

    /// Takes a token, or says when there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = passed.mul_add(self.per_second, self.tokens).min(self.burst);
        self.at = self.at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(now + Duration::from_secs_f64((1.0 - self.tokens) / self.per_second))
    }

    /// Gives back one that was not needed.
    pub(crate) fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_at_once_then_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(3, 2, start);
        assert!((0..3).all(|_| bucket.take(start).is_ok()));
        let next = bucket.take(start).unwrap_err();
        assert_eq!(next, start + Duration::from_millis(500));
        assert!(bucket.take(next).is_ok());
        assert!(bucket.take(next).is_err());
        let later = start + Duration::from_mins(1);
        assert_eq!((0..10).filter(|_| bucket.take(later).is_ok()).count(), 3, "no more than a burst is saved up");
    }
}
