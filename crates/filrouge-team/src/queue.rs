//! The queue of the next speakers.

use std::collections::VecDeque;

use crate::message::{Intent, MessageId};

/// A queued member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The member's id.
    pub member_id: Box<str>,
    /// The message that addressed them, which they are to answer.
    pub parent: MessageId,
    /// The id of the member who addressed them.
    pub by: Box<str>,
    /// Their priority.
    pub intent: Intent,
}

/// The next speakers: interrupts before replies before extensions; within each, in the order of arrival.
#[derive(Debug, Clone, Default)]
pub struct RoutingQueue {
    routes: VecDeque<Route>,
}

impl RoutingQueue {
    /// Queues a member by priority. A member queued twice for the same message stays once, with the better priority.
    pub fn push(&mut self, route: Route) {
        let is_same =
            |queued: &Route| queued.member_id == route.member_id && queued.parent == route.parent;
        if let Some(index) = self.routes.iter().position(is_same) {
            if self.routes[index].intent <= route.intent {
                return;
            }
            self.routes.remove(index);
        }
        let end = self
            .routes
            .partition_point(|queued| queued.intent <= route.intent);
        self.routes.insert(end, route);
    }

    /// Removes and returns the next member.
    pub fn pop(&mut self) -> Option<Route> {
        self.routes.pop_front()
    }

    /// The next member, who stays in the queue.
    pub fn first(&self) -> Option<&Route> {
        self.routes.front()
    }

    /// Empties the queue; returns how many entries it had.
    pub fn clear(&mut self) -> usize {
        let count = self.routes.len();
        self.routes.clear();
        count
    }

    /// Removes a member; returns how many entries they had.
    pub fn remove(&mut self, member_id: &str) -> usize {
        let count = self.routes.len();
        self.routes.retain(|route| &*route.member_id != member_id);
        count - self.routes.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// All entries, the next one first.
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
        fn members_are_served_by_priority_then_arrival_without_duplicates(
            requests in prop::collection::vec((0..4u8, 0..4u8, intents()), 0..40)
        ) {
            let mut queue = RoutingQueue::default();
            // For each member and message: the best requested priority, and the order of its first request.
            let mut expected: Vec<(Intent, usize, Route)> = Vec::new();
            for (arrival, (member, parent, intent)) in requests.into_iter().enumerate() {
                let new = route(member, parent, intent);
                queue.push(new.clone());
                let existing = expected.iter().position(|(_, _, route)| {
                    route.member_id == new.member_id && route.parent == new.parent
                });
                match existing {
                    Some(i) if expected[i].0 <= intent => {}
                    Some(i) => expected[i] = (intent, arrival, new),
                    None => expected.push((intent, arrival, new)),
                }
            }
            expected.sort_by_key(|(intent, arrival, _)| (*intent, *arrival));
            let served: Vec<Route> = std::iter::from_fn(|| queue.pop()).collect();
            let expected: Vec<Route> = expected.into_iter().map(|(_, _, route)| route).collect();
            prop_assert_eq!(served, expected);
        }
    }

    #[test]
    fn members_are_removed_by_id_or_all_at_once() {
        let mut queue = RoutingQueue::default();
        for (member, parent) in [(1, 1), (2, 1), (1, 2)] {
            queue.push(route(member, parent, Intent::Reply));
        }
        assert_eq!(queue.remove("m1"), 2);
        assert_eq!(queue.first().unwrap().member_id, "m2".into());
        assert_eq!((queue.clear(), queue.is_empty()), (1, true));
    }
}
