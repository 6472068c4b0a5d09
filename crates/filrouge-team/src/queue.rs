//! Who is to speak next.

use std::collections::VecDeque;

use crate::message::{Intent, MessageId};

/// Somebody who is to speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Who: a member's id.
    pub member_id: Box<str>,
    /// To what: the message that addressed them.
    pub parent: MessageId,
    /// Who addressed them: a member's id.
    pub by: Box<str>,
    /// Which row they wait in.
    pub intent: Intent,
}

/// Those who are to speak: interrupts before replies before extensions, and each in the order they were asked.
#[derive(Debug, Clone, Default)]
pub struct RoutingQueue {
    routes: VecDeque<Route>,
}

impl RoutingQueue {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts one into its row. One who waits already to answer the same message stays once, in the better of both rows.
    pub fn push(&mut self, route: Route) {
        let same = |one: &Route| one.member_id == route.member_id && one.parent == route.parent;
        if let Some(at) = self.routes.iter().position(same) {
            let better = self
                .routes
                .get(at)
                .is_some_and(|one| route.intent < one.intent);
            if !better {
                return;
            }
            self.routes.remove(at);
        }
        let behind = self
            .routes
            .partition_point(|one| one.intent <= route.intent);
        self.routes.insert(behind, route);
    }

    /// Takes the next one.
    pub fn pop(&mut self) -> Option<Route> {
        self.routes.pop_front()
    }

    /// The next one, who stays.
    #[must_use]
    pub fn first(&self) -> Option<&Route> {
        self.routes.front()
    }

    /// Nobody waits any more; how many did.
    pub fn clear(&mut self) -> usize {
        let waited = self.routes.len();
        self.routes.clear();
        waited
    }

    /// A member waits no more; how often they did.
    pub fn remove(&mut self, member_id: &str) -> usize {
        let waited = self.routes.len();
        self.routes.retain(|route| &*route.member_id != member_id);
        waited - self.routes.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Those who wait, the next one first.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn route(member: u8, parent: u8, intent: Intent) -> Route {
        Route {
            member_id: format!("m{member}").into(),
            parent: format!("msg-{parent}").into(),
            by: "ada".into(),
            intent,
        }
    }

    fn intents() -> impl Strategy<Value = Intent> {
        prop_oneof![
            Just(Intent::Interrupt),
            Just(Intent::Reply),
            Just(Intent::Extend)
        ]
    }

    proptest! {
        #[test]
        fn rows_in_order_each_first_come_first_served_and_nobody_twice(
            asked in prop::collection::vec((0..4u8, 0..4u8, intents()), 0..40)
        ) {
            let mut queue = RoutingQueue::new();
            // The first time that each of them got into the best row that they ever asked for.
            let mut wanted: Vec<(Intent, usize, Route)> = Vec::new();
            for (at, (member, parent, intent)) in asked.into_iter().enumerate() {
                let new = route(member, parent, intent);
                queue.push(new.clone());
                let known = wanted.iter().position(|(_, _, one)| {
                    one.member_id == new.member_id && one.parent == new.parent
                });
                match known {
                    Some(i) if wanted[i].0 <= intent => {}
                    Some(i) => wanted[i] = (intent, at, new),
                    None => wanted.push((intent, at, new)),
                }
            }
            wanted.sort_by_key(|(intent, at, _)| (*intent, *at));
            let served: Vec<Route> = std::iter::from_fn(|| queue.pop()).collect();
            let wanted: Vec<Route> = wanted.into_iter().map(|(_, _, route)| route).collect();
            prop_assert_eq!(served, wanted);
        }
    }

    #[test]
    fn taken_out_by_name_or_all() {
        let mut queue = RoutingQueue::new();
        for (member, parent) in [(1, 1), (2, 1), (1, 2)] {
            queue.push(route(member, parent, Intent::Reply));
        }
        assert_eq!(queue.remove("m1"), 2);
        assert_eq!(queue.first().unwrap().member_id, "m2".into());
        assert_eq!((queue.clear(), queue.is_empty()), (1, true));
    }
}
