use proptest::prelude::*;

use super::*;

fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn seen(holder: &str, version: &str) -> Seen {
    let record = Record { holder: holder.into(), duration: second(15), transitions: 3 };
    Seen { record, version: version.into() }
}

#[test]
fn an_absent_lease_is_created_and_renewed() {
    let start = Instant::now();
    let mut elector = Elector::new("a", LeaseOptions::default());
    assert_eq!(elector.step(start), Action::Read);
    elector.read(None, start);
    let Action::Create(record) = elector.step(start) else { panic!() };
    elector.wrote(record, Written::Done("1".into()), start, start + second(1));
    assert_eq!(elector.until(start + second(1)), Some(start + second(10)), "counted from when it was sent");
    assert_eq!(elector.step(start + second(1)), Action::Wait(start + second(2)));
    assert!(matches!(elector.step(start + second(2)), Action::Replace(_, version) if &*version == "1"));
}

#[test]
fn a_lease_of_another_is_left_alone_until_it_has_not_changed_for_its_duration() {
    let start = Instant::now();
    let mut elector = Elector::new("a", LeaseOptions::default());
    elector.read(Some(seen("b", "1")), start);
    assert_eq!(elector.step(start + second(14)), Action::Wait(start + second(15)));
    elector.read(Some(seen("b", "2")), start + second(14));
    assert_eq!(
        elector.step(start + second(16)),
        Action::Wait(start + second(29)),
        "a renewal counts from when it is seen"
    );
    elector.read(Some(seen("b", "2")), start + second(20));
    let Action::Replace(record, version) = elector.step(start + second(29)) else { panic!() };
    assert_eq!((&*record.holder, record.transitions, &*version), ("a", 4, "2"));
}

#[test]
fn a_lease_that_was_let_go_is_taken_at_once() {
    let start = Instant::now();
    let mut elector = Elector::new("a", LeaseOptions::default());
    elector.read(Some(seen("", "1")), start);
    assert!(matches!(elector.step(start), Action::Replace(..)));
}

#[test]
fn the_lease_of_an_earlier_process_of_the_pod_is_taken_at_once() {
    let start = Instant::now();
    let taken = |identity: &str, holder: &str| {
        let mut elector = Elector::new(identity, LeaseOptions::default());
        elector.read(Some(seen(holder, "1")), start);
        matches!(elector.step(start), Action::Replace(..))
    };
    assert!(taken("portolan-7f_2", "portolan-7f_1"));
    for (identity, holder) in
        [("portolan-7f_2", "portolan-8a_1"), ("a", "b"), ("a_1", "a"), ("a", "a_1"), ("_1", "b_1")]
    {
        assert!(!taken(identity, holder), "{identity} {holder}");
    }
}

#[test]
fn a_term_ends_without_anybody_saying_so() {
    let start = Instant::now();
    let mut elector = Elector::new("a", LeaseOptions::default());
    elector.read(Some(seen("", "1")), start);
    let Action::Replace(record, _) = elector.step(start) else { panic!() };
    elector.wrote(record.clone(), Written::Done("2".into()), start, start);
    elector.wrote(record, Written::Failed, start + second(2), start + second(5));
    elector.unreadable(start + second(6));
    assert!(elector.until(start + second(9)).is_some());
    assert!(elector.until(start + second(10)).is_none());
}

#[test]
fn a_conflict_is_no_end_of_the_term_but_another_holder_is() {
    let start = Instant::now();
    let mut elector = Elector::new("a", LeaseOptions::default());
    elector.read(Some(seen("a", "1")), start);
    let Action::Replace(record, _) = elector.step(start) else { panic!("its own is renewed at once") };
    elector.wrote(record.clone(), Written::Done("2".into()), start, start);
    elector.wrote(record, Written::Failed, start + second(2), start + second(2));
    assert!(elector.until(start + second(3)).is_some());
    assert_eq!(elector.step(start + second(3)), Action::Read);
    elector.read(Some(seen("b", "3")), start + second(3));
    assert!(elector.until(start + second(3)).is_none());
    assert!(elector.release().is_none(), "nothing to let go");
}

#[test]
fn letting_go_ends_the_term_and_names_nobody() {
    let start = Instant::now();
    let mut elector = Elector::new("a", LeaseOptions::default());
    elector.read(None, start);
    let Action::Create(record) = elector.step(start) else { panic!() };
    elector.wrote(record, Written::Done("1".into()), start, start);
    let (free, version) = elector.release().unwrap();
    assert_eq!((&*free.holder, &*version), ("", "1"));
    assert!(elector.until(start).is_none());
}

#[test]
fn options_that_cannot_be_safe_are_named() {
    assert_eq!(LeaseOptions::default().problem(), None);
    let bad = LeaseOptions { renew_deadline: second(15), ..LeaseOptions::default() };
    assert!(bad.problem().unwrap().contains("shorter than the lease"));
}

/// Three candidates, a store, a network that delays, reorders, loses and repeats nothing it should not, clocks that run at rates of their
/// own, processes that stand still and processes that are replaced.
struct World {
    random: u64,
    now: u64,
    lease: Option<Seen>,
    version: u64,
    in_flight: Vec<Message>,
    candidates: Vec<Candidate>,
}

struct Candidate {
    elector: Elector,
    options: LeaseOptions,
    /// In thousandths
    rate: u64,
    origin: Instant,
    /// The request it waits for, and since when
    waits: Option<(u64, u64)>,
    stands_still_until: u64,
    incarnation: u64,
    name: usize,
}

struct Message {
    at: u64,
    id: u64,
    of: usize,
    sent: Instant,
    body: Body,
}

enum Body {
    Request(Action),
    Answer(Action, Result<Option<Seen>, ()>),
}

const STEP: u64 = 50;

impl World {
    fn new(seed: u64, options: LeaseOptions) -> Self {
        let origin = Instant::now();
        let mut world =
            Self { random: seed | 1, now: 0, lease: None, version: 0, in_flight: Vec::new(), candidates: Vec::new() };
        for name in 0..3 {
            let rate = 850 + world.draw(300);
            let elector = Elector::new(format!("{name}_0"), options);
            let waits = None;
            let candidate =
                Candidate { elector, options, rate, origin, waits, stands_still_until: 0, incarnation: 0, name };
            world.candidates.push(candidate);
        }
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    /// Mostly quick; now and then longer than any patience.
    fn delay(&mut self) -> u64 {
        match self.draw(10) {
            0 => self.draw(20_000),
            1 | 2 => self.draw(4_000),
            _ => self.draw(200),
        }
    }

    fn clock(&self, of: usize) -> Instant {
        self.candidates[of].origin + Duration::from_micros(self.now * self.candidates[of].rate)
    }

    fn leaders(&self) -> usize {
        (0..3).filter(|of| self.candidates[*of].elector.until(self.clock(*of)).is_some()).count()
    }

    fn step(&mut self) {
        self.now += STEP;
        let (due, later) = std::mem::take(&mut self.in_flight).into_iter().partition(|message| message.at <= self.now);
        self.in_flight = later;
        for message in due {
            self.deliver(message);
        }
        for of in 0..3 {
            if self.draw(2_000) == 0 {
                self.candidates[of].stands_still_until = self.now + self.random % 25_000;
            }
            if self.draw(3_000) == 0 {
                let candidate = &mut self.candidates[of];
                candidate.incarnation += 1;
                let identity = format!("{}_{}", candidate.name, candidate.incarnation);
                candidate.elector = Elector::new(identity, candidate.options);
                candidate.waits = None;
            }
            if self.candidates[of].stands_still_until <= self.now {
                self.act(of);
            }
        }
    }

    fn act(&mut self, of: usize) {
        let now = self.clock(of);
        if let Some((_, since)) = self.candidates[of].waits {
            if self.now - since < 3_300 {
                return;
            }
            self.answer(of, None, now, None);
        }
        let action = self.candidates[of].elector.step(now);
        if let Action::Wait(_) = action {
            if self.draw(20) == 0 {
                self.candidates[of].elector.look(now);
            }
            return;
        }
        let (id, at) = (self.draw(u64::MAX), self.now + self.delay());
        self.candidates[of].waits = Some((id, self.now));
        // A request that is lost is never heard of again; one that is only slow takes effect even when nobody waits for it any more.
        if self.draw(20) > 0 {
            self.in_flight.push(Message { at, id, of, sent: now, body: Body::Request(action) });
        }
    }

    fn deliver(&mut self, message: Message) {
        let Message { id, of, sent, body, .. } = message;
        match body {
            Body::Request(action) => {
                let result = self.store(&action);
                let at = self.now + self.delay();
                self.in_flight.push(Message { at, id, of, sent, body: Body::Answer(action, result) });
            }
            Body::Answer(action, result) => {
                let candidate = &self.candidates[of];
                let awaited = candidate.waits.is_some_and(|(awaited, _)| awaited == id);
                // A process that stands still finds the answer when it goes on.
                if awaited && candidate.stands_still_until > self.now {
                    let at = candidate.stands_still_until;
                    self.in_flight.push(Message { at, id, of, sent, body: Body::Answer(action, result) });
                } else if awaited {
                    self.answer(of, Some((action, result)), self.clock(of), Some(sent));
                }
            }
        }
    }

    fn store(&mut self, action: &Action) -> Result<Option<Seen>, ()> {
        let record = match (action, &self.lease) {
            (Action::Read, lease) => return Ok(lease.clone()),
            (Action::Create(record), None) => record,
            (Action::Replace(record, version), Some(lease)) if *version == lease.version => record,
            _ => return Err(()),
        };
        self.version += 1;
        self.lease = Some(Seen { record: record.clone(), version: self.version.to_string().into() });
        Ok(self.lease.clone())
    }

    fn answer(
        &mut self,
        of: usize,
        answer: Option<(Action, Result<Option<Seen>, ()>)>,
        now: Instant,
        sent: Option<Instant>,
    ) {
        let candidate = &mut self.candidates[of];
        candidate.waits = None;
        match answer {
            None => candidate.elector.unreadable(now),
            Some((Action::Read, result)) => candidate.elector.read(result.unwrap(), now),
            Some((Action::Create(record) | Action::Replace(record, _), result)) => {
                let written = result.ok().flatten().map_or(Written::Failed, |seen| Written::Done(seen.version));
                candidate.elector.wrote(record, written, sent.unwrap(), now);
            }
            Some((Action::Wait(_), _)) => unreachable!(),
        }
    }
}

/// Five minutes. The most leaders at once, and how often there was one.
fn run(seed: u64, options: LeaseOptions) -> (usize, u64) {
    let mut world = World::new(seed, options);
    let (mut most, mut led) = (0, 0);
    while world.now < 300_000 {
        world.step();
        most = most.max(world.leaders());
        led += u64::from(world.leaders() > 0);
    }
    (most, led)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn never_two_leaders(seed: u64) {
        let (most, led) = run(seed, LeaseOptions::default());
        prop_assert!(most <= 1);
        prop_assert!(led > 1_000, "there is one most of the time: {led} of 6000");
    }
}

#[test]
fn the_simulation_finds_two_leaders_where_terms_outlive_the_lease() {
    let unsafe_options = LeaseOptions { renew_deadline: second(20), ..LeaseOptions::default() };
    assert!((1..200).any(|seed| run(seed * 7_919, unsafe_options).0 > 1));
}
