use std::time::Duration;

use super::*;

fn manifest(kind: &str, name: &str, data: i64) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "n", "name": name}, "data": data})
}

fn uid(name: &str) -> Uid {
    name.into()
}

struct Fixture {
    plan: Plan,
    now: Instant,
    version: u64,
}

impl Fixture {
    fn new() -> Self {
        Self { plan: Plan::default(), now: Instant::now(), version: 0 }
    }

    fn seen(&mut self, owner: &str, applied: Option<&str>, fingerprint: u64) -> Seen {
        self.version += 1;
        Seen {
            uid: "o".into(),
            resource_version: self.version.to_string().into(),
            owners: [uid(owner)].into(),
            applied: applied.map(Into::into),
            fingerprint,
        }
    }

    fn round(&mut self) -> Option<Round> {
        match self.plan.next(self.now) {
            Next::Round(round) => Some(round),
            _ => None,
        }
    }

    /// Does all that there is to do, as an API server would. What was applied, and what was deleted (in brackets).
    fn settle(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        while let Some(round) = self.round() {
            for step in &round.steps {
                match step {
                    Step::Apply { id, hash, .. } => {
                        done.push(id.name.to_string());
                        let seen = self.seen(&round.owner, Some(hash), 1);
                        self.plan.applied(&round.owner, id, seen, self.now);
                    }
                    Step::Delete { id, .. } => {
                        done.push(format!("[{}]", id.name));
                        self.plan.observe(id, None);
                    }
                }
            }
            self.plan.finish(&round, Vec::new(), self.now);
        }
        done
    }
}

#[test]
fn what_is_wanted_is_applied_once_in_its_order() {
    let mut fixture = Fixture::new();
    let wanted = || vec![manifest("Secret", "b", 1), manifest("ConfigMap", "a", 1)];
    fixture.plan.want(&uid("g"), wanted());
    assert_eq!(fixture.settle(), ["b", "a"]);
    fixture.plan.want(&uid("g"), wanted());
    assert!(fixture.settle().is_empty());
    fixture.plan.want(&uid("g"), vec![manifest("Secret", "b", 1), manifest("ConfigMap", "a", 2)]);
    assert_eq!(fixture.settle(), ["a"]);
}

#[test]
fn a_new_leader_writes_nothing_where_the_hashes_are_right() {
    let mut fixture = Fixture::new();
    fixture.plan.want(&uid("g"), vec![manifest("ConfigMap", "a", 1)]);
    let round = fixture.round().unwrap();
    let Step::Apply { id, hash, .. } = round.steps[0].clone() else { panic!() };
    let mut next = Fixture::new();
    let seen = next.seen("g", Some(&hash), 5);
    next.plan.list("ConfigMap", "", BTreeMap::from([(id.clone(), seen)]));
    next.plan.want(&uid("g"), vec![manifest("ConfigMap", "a", 1)]);
    next.plan.reconsider();
    assert!(next.settle().is_empty());
    // Another Gateway of the name has another UID: what belonged to the old one is taken over.
    let seen = next.seen("old", Some(&hash), 5);
    next.plan.observe(&id, Some(seen));
    assert_eq!(next.settle(), ["a"]);
}

#[test]
fn only_what_is_superseded_is_deleted() {
    let mut fixture = Fixture::new();
    fixture.plan.want(&uid("g"), vec![manifest("ConfigMap", "a", 1), manifest("Secret", "s", 1)]);
    fixture.settle();
    let other = ObjectId::of(&manifest("ConfigMap", "of-a-gateway-not-seen-yet", 1)).unwrap();
    let seen = fixture.seen("h", Some("x"), 1);
    fixture.plan.observe(&other, Some(seen));
    assert!(fixture.settle().is_empty());
    fixture.plan.want(&uid("g"), vec![manifest("ConfigMap", "a", 1)]);
    assert_eq!(fixture.settle(), ["[s]"]);
    fixture.plan.gone("g");
    assert!(fixture.settle().is_empty(), "that is for the garbage collector");
    fixture.plan.want(&uid("h"), Vec::new());
    assert_eq!(fixture.settle(), ["[of-a-gateway-not-seen-yet]"]);
}

#[test]
fn a_delete_is_of_the_object_that_was_seen() {
    let mut fixture = Fixture::new();
    let id = ObjectId::of(&manifest("ConfigMap", "a", 1)).unwrap();
    let seen = fixture.seen("g", Some("x"), 1);
    fixture.plan.observe(&id, Some(seen));
    fixture.plan.want(&uid("g"), Vec::new());
    let round = fixture.round().unwrap();
    assert_eq!(round.steps, [Step::Delete { id, uid: "o".into(), resource_version: "1".into() }]);
}

#[test]
fn what_others_change_is_put_right_but_not_without_end() {
    let mut fixture = Fixture::new();
    fixture.plan.want(&uid("g"), vec![manifest("ConfigMap", "a", 1)]);
    let id = ObjectId::of(&manifest("ConfigMap", "a", 1)).unwrap();
    fixture.settle();
    let mut writes = 0;
    let end = fixture.now + Duration::from_mins(10);
    let hash = fixture.plan.seen[&id].applied.clone().unwrap();
    while fixture.now < end {
        let seen = fixture.seen("g", Some(&hash), 2);
        fixture.plan.observe(&id, Some(seen));
        writes += fixture.settle().len();
        fixture.now += Duration::from_millis(100);
    }
    assert!((15..30).contains(&writes), "{writes} in ten minutes");
}

#[test]
fn failures_are_problems_of_the_owner_and_tried_again() {
    let mut fixture = Fixture::new();
    fixture.plan.want(&uid("g"), vec![manifest("ConfigMap", "a", 1)]);
    let problem = Problem { object: "ConfigMap n/a".into(), text: "quota".into() };
    let told = BTreeMap::from([(uid("g"), vec![problem.clone()])]);
    for expected in [BTreeMap::new(), told] {
        let round = fixture.round().unwrap();
        fixture.plan.finish(&round, vec![problem.clone()], fixture.now);
        assert_eq!(fixture.plan.problems(), expected, "not what may be a hitch");
        assert!(fixture.round().is_none());
        let Next::At(at) = fixture.plan.next(fixture.now) else { panic!() };
        fixture.now = at;
    }
    assert_eq!(fixture.settle(), ["a"]);
    assert!(fixture.plan.problems().is_empty());
}

#[test]
fn an_older_word_of_the_watch_does_not_count() {
    let mut fixture = Fixture::new();
    let id = ObjectId::of(&manifest("ConfigMap", "a", 1)).unwrap();
    let old = fixture.seen("g", Some("old"), 9);
    fixture.plan.want(&uid("g"), vec![manifest("ConfigMap", "a", 1)]);
    fixture.settle();
    fixture.plan.observe(&id, Some(old.clone()));
    assert!(fixture.settle().is_empty());
    fixture.plan.list("ConfigMap", "", BTreeMap::from([(id, old)]));
    assert_eq!(fixture.settle(), ["a"], "a list is what there is");
}
