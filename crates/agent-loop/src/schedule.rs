//! Which calls of one message may run beside which.

/// The calls that run, and whether another may join them.
///
/// Calls start in the model's order. Consecutive parallel-safe ones run together, at most `limit` at
/// once; any other runs alone.
#[derive(Debug)]
pub(crate) struct Schedule {
    limit: usize,
    running: usize,
    alone: bool,
}

impl Schedule {
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            limit,
            running: 0,
            alone: false,
        }
    }

    /// Starts the next call, if it may run beside those that do.
    pub(crate) const fn start(&mut self, parallel_safe: bool) -> bool {
        let joins = parallel_safe && !self.alone && self.running < self.limit;
        if self.running > 0 && !joins {
            return false;
        }
        self.running += 1;
        self.alone = !parallel_safe;
        true
    }

    /// One of those that run has settled.
    pub(crate) const fn settle(&mut self) {
        self.running = self.running.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many calls start together, if those that run settle only all at once.
    fn groups(limit: usize, calls: &str) -> Vec<usize> {
        let mut calls = calls.chars().map(|call| call == 'p').peekable();
        let mut groups = Vec::new();
        while calls.peek().is_some() {
            let mut schedule = Schedule::new(limit);
            let mut size = 0;
            while calls.next_if(|safe| schedule.start(*safe)).is_some() {
                size += 1;
            }
            groups.push(size);
        }
        groups
    }

    #[test]
    fn consecutive_parallel_safe_calls_form_a_group() {
        assert_eq!(groups(10, "ppp"), [3]);
        assert_eq!(groups(10, "ppxpp"), [2, 1, 2]);
        assert_eq!(groups(10, "xxx"), [1, 1, 1]);
        assert_eq!(groups(10, "xp"), [1, 1]);
    }

    #[test]
    fn no_more_than_the_limit_run_at_once() {
        assert_eq!(groups(2, "ppppp"), [2, 2, 1]);
        assert_eq!(groups(0, "pp"), [1, 1]);
    }

    #[test]
    fn a_settled_call_makes_room_for_the_next() {
        let mut schedule = Schedule::new(2);
        assert!(schedule.start(true) && schedule.start(true) && !schedule.start(true));
        schedule.settle();
        assert!(!schedule.start(false));
        assert!(schedule.start(true));
    }
}
