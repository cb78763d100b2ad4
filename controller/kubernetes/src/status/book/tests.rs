use portolan_model::ir::ParentStatus;
use portolan_model::objects::ParentRef;
use portolan_model::{CONTROLLER_NAME, Condition, ConditionType, Kind, NamespacedName, Reason};
use serde_json::json;

use super::*;

const TIME: &str = "2026-01-02T03:04:05Z";

fn key() -> ObjectKey {
    ObjectKey::new(Kind::HTTPRoute, NamespacedName::new("shop", "cart"))
}

fn meta(uid: &str, version: &str, status: Value) -> Meta {
    Meta {
        uid: uid.into(),
        resource_version: version.into(),
        generation: 1,
        api_version: "gateway.networking.k8s.io/v1".into(),
        status: Arc::new(status),
    }
}

fn wanted(message: &str) -> Status {
    let parent =
        ParentRef { group: None, kind: None, namespace: None, name: "edge".into(), section_name: None, port: None };
    let condition = Condition::new(ConditionType::Accepted, true, Reason::Accepted, message);
    Status::Route { parents: vec![ParentStatus { parent, conditions: vec![condition] }] }
}

struct Fixture {
    book: Book,
    now: Instant,
}

impl Fixture {
    fn new() -> Self {
        Self { book: Book::default(), now: Instant::now() }
    }

    fn observe(&mut self, uid: &str, version: &str, status: Value) {
        self.book.observe(&key(), Some(meta(uid, version, status)), self.now);
    }

    fn job(&mut self) -> Option<Job> {
        match self.book.next(self.now, TIME) {
            Next::Write(job) => Some(*job),
            _ => None,
        }
    }

    fn status(job: &Job) -> Value {
        let Write::Merge(patch) = &job.write else { panic!() };
        patch["status"].clone()
    }

    /// As the API server does it.
    fn succeed(&mut self, job: Job, version: &str) -> Value {
        let status = Self::status(&job);
        let outcome = Outcome::Written { resource_version: version.into(), status: Arc::new(status.clone()) };
        self.book.finish(job, outcome, self.now);
        status
    }
}

#[test]
fn the_latest_wins_and_there_is_one_write_at_a_time() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "1", Value::Null);
    fixture.book.want(&key(), Some(wanted("one")));
    let job = fixture.job().unwrap();
    fixture.book.want(&key(), Some(wanted("two")));
    fixture.book.want(&key(), Some(wanted("three")));
    assert!(fixture.job().is_none(), "one is under way");
    fixture.succeed(job, "2");
    let job = fixture.job().unwrap();
    let status = Fixture::status(&job);
    assert_eq!(status["parents"][0]["conditions"][0]["message"], "three");
    let status = fixture.succeed(job, "3");
    fixture.observe("u", "3", status);
    assert!(fixture.job().is_none());
}

#[test]
fn a_conflict_waits_for_the_watch() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "1", Value::Null);
    fixture.book.want(&key(), Some(wanted("one")));
    let job = fixture.job().unwrap();
    fixture.book.finish(job, Outcome::Conflict, fixture.now);
    fixture.now += Duration::from_secs(100);
    assert!(fixture.job().is_none(), "not with the same version again");
    fixture.book.want(&key(), Some(wanted("two")));
    assert!(fixture.job().is_none());
    fixture.observe("u", "2", json!({"parents": [{"controllerName": "other"}]}));
    let job = fixture.job().unwrap();
    assert_eq!(Fixture::status(&job)["parents"].as_array().unwrap().len(), 2);
}

#[test]
fn a_conflict_that_the_watch_has_overtaken_is_no_reason_to_wait() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "1", Value::Null);
    fixture.book.want(&key(), Some(wanted("one")));
    let job = fixture.job().unwrap();
    fixture.observe("u", "2", Value::Null);
    fixture.book.finish(job, Outcome::Conflict, fixture.now);
    assert_eq!(&*fixture.job().unwrap().meta.resource_version, "2");
}

#[test]
fn an_object_made_again_under_its_old_name_gets_its_status() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "1", Value::Null);
    fixture.book.want(&key(), Some(wanted("one")));
    let job = fixture.job().unwrap();
    // Both in one batch, and the engine sees an equal value.
    fixture.observe("v", "3", Value::Null);
    fixture.succeed(job, "2");
    let job = fixture.job().unwrap();
    assert_eq!((&*job.meta.uid, &*job.meta.resource_version), ("v", "3"));
}

#[test]
fn what_a_write_returned_counts_more_than_an_older_word_of_the_watch() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "5", Value::Null);
    fixture.book.want(&key(), Some(wanted("one")));
    let job = fixture.job().unwrap();
    fixture.succeed(job, "9");
    fixture.observe("u", "7", Value::Null);
    assert!(fixture.job().is_none());
    // After a restore of the API server's store its numbers go back for good.
    fixture.now += WATCH_LAG;
    fixture.observe("u", "7", Value::Null);
    assert!(fixture.job().is_some());
}

#[test]
fn failures_are_tried_again_at_longer_and_longer_intervals() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "1", Value::Null);
    fixture.book.want(&key(), Some(wanted("one")));
    let mut waits = Vec::new();
    for _ in 0..9 {
        let job = fixture.job().unwrap();
        fixture.book.finish(job, Outcome::Failed, fixture.now);
        let Next::At(at) = fixture.book.next(fixture.now, TIME) else { panic!() };
        waits.push((at - fixture.now).as_millis());
        fixture.now = at;
    }
    assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
}

#[test]
fn what_somebody_takes_away_is_written_again_but_not_without_end() {
    let mut fixture = Fixture::new();
    fixture.book.want(&key(), Some(wanted("one")));
    let mut writes = 0;
    let end = fixture.now + Duration::from_mins(10);
    let mut version = 1;
    while fixture.now < end {
        version += 1;
        fixture.observe("u", &version.to_string(), json!({"parents": []}));
        if let Some(job) = fixture.job() {
            writes += 1;
            version += 1;
            fixture.succeed(job, &version.to_string());
        }
        fixture.now += Duration::from_millis(100);
    }
    assert!((15..30).contains(&writes), "{writes} in ten minutes");
}

#[test]
fn a_new_leader_compares_everything_anew() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "1", Value::Null);
    fixture.book.want(&key(), Some(wanted("one")));
    let job = fixture.job().unwrap();
    fixture.book.finish(job, Outcome::Failed, fixture.now);
    assert!(fixture.job().is_none());
    fixture.book.reconsider();
    assert!(fixture.job().is_some());
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut fixture = Fixture::new();
    fixture.observe("u", "1", json!({"parents": [{"controllerName": CONTROLLER_NAME}]}));
    fixture.book.want(&key(), Some(wanted("one")));
    let job = fixture.job().unwrap();
    fixture.book.observe(&key(), None, fixture.now);
    fixture.book.want(&key(), None);
    fixture.book.finish(job, Outcome::Conflict, fixture.now);
    assert!(fixture.book.entries.is_empty());
}

#[test]
fn many_statuses_are_compared_a_few_at_a_time() {
    let mut fixture = Fixture::new();
    for number in 0..200 {
        let key = ObjectKey::new(Kind::HTTPRoute, NamespacedName::new("shop", number.to_string()));
        fixture.book.observe(&key, Some(meta("u", "1", Value::Null)), fixture.now);
    }
    let mut calls = 0;
    while matches!(fixture.book.next(fixture.now, TIME), Next::At(at) if at == fixture.now) {
        calls += 1;
    }
    assert_eq!(calls, 200 / AT_A_TIME);
    assert!(matches!(fixture.book.next(fixture.now, TIME), Next::Idle));
}
