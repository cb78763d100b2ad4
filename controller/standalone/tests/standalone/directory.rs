//! What becomes of a directory of manifests under every way of changing it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::mpsc::{self, Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use portolan_standalone::Finding;
use portolan_standalone::directory::{Directory, FILE_LIMIT, Update, Watch};
use portolan_testkit::Dir;

/// Long enough for whatever is going to happen; short where nothing is to happen.
const PATIENCE: Duration = Duration::from_secs(10);
const WHILE: Duration = Duration::from_millis(600);

/// A watched directory and what its updates add up to.
struct Watched {
    updates: Receiver<Update>,
    /// In force: object to the data that tells its versions apart
    objects: BTreeMap<String, String>,
    findings: Vec<Finding>,
    /// Every change of an object: `+name=data` and `-name`
    history: Vec<String>,
    _watch: Watch,
}

impl Watched {
    fn new(dir: &Dir) -> Self {
        let (directory, first) = Directory::open(&dir.path(), (SystemTime::now(), Instant::now())).unwrap();
        let (sender, updates) = channel();
        let watch = directory.watch(move |update| sender.send(update).is_ok()).unwrap();
        let mut watched =
            Self { updates, objects: BTreeMap::new(), findings: Vec::new(), history: Vec::new(), _watch: watch };
        watched.take(first);
        watched
    }

    fn take(&mut self, update: Update) {
        for (key, applied) in update.objects {
            let name = key.name.name.to_string();
            match applied {
                Some(applied) => {
                    let portolan_model::objects::Object::ConfigMap(map) = &applied.object else { panic!("{key}") };
                    let data = String::from_utf8(map.data["v"].to_vec()).unwrap();
                    if self.objects.insert(name.clone(), data.clone()).as_ref() != Some(&data) {
                        self.history.push(format!("+{name}={data}"));
                    }
                }
                None => {
                    self.objects.remove(&name).expect("an object that was there");
                    self.history.push(format!("-{name}"));
                }
            }
        }
        for cleared in update.findings.cleared {
            let at = self.findings.iter().position(|finding| finding.same_problem(&cleared));
            self.findings.remove(at.unwrap_or_else(|| panic!("{cleared:?} was not there: {:?}", self.findings)));
        }
        self.findings.extend(update.findings.arisen);
    }

    /// Waits until the directory says this.
    #[track_caller]
    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !condition(self) {
            match self.updates.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(update) => self.take(update),
                Err(mpsc::RecvTimeoutError::Timeout | mpsc::RecvTimeoutError::Disconnected) => {
                    panic!("{what}: not within {PATIENCE:?}: {:?} {:?}", self.objects, self.findings)
                }
            }
        }
    }

    #[track_caller]
    fn until_objects(&mut self, objects: &[(&str, &str)]) {
        let expected = objects.iter().map(|(name, data)| (name.to_string(), data.to_string())).collect();
        self.until(&format!("{objects:?}"), |watched| watched.objects == expected);
    }

    #[track_caller]
    fn until_finding(&mut self, file: &str, words: &[&str]) {
        self.until(&format!("a finding in {file} with {words:?}"), |watched| {
            watched.findings.iter().any(|finding| {
                let text = format!("{} {}", finding.message, finding.meanwhile.as_deref().unwrap_or_default());
                finding.file.ends_with(file) && words.iter().all(|word| text.contains(word))
            })
        });
    }

    #[track_caller]
    fn until_clean(&mut self) {
        self.until("no finding", |watched| watched.findings.is_empty());
    }

    /// Nothing happens to objects for a while.
    #[track_caller]
    fn stays(&mut self) {
        let before = self.history.len();
        let end = Instant::now() + WHILE;
        while let Ok(update) = self.updates.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.take(update);
        }
        assert_eq!(self.history.get(before..), Some([].as_slice()), "{:?}", self.findings);
    }
}

fn map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  v: \"{data}\"\n")
}

#[test]
fn files_of_three_suffixes_at_any_depth_and_no_others() {
    let dir = Dir::new().unwrap();
    dir.write("a.yaml", map("a", "1")).unwrap();
    dir.write("deep/er/b.yml", map("b", "1")).unwrap();
    dir.write("c.json", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"v":"1"}}"#).unwrap();
    for ignored in [".d.yaml", ".git/e.yaml", "f.yaml~", "g.txt", "h.yaml.swp"] {
        dir.write(ignored, map("ignored", "1")).unwrap();
    }
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1"), ("b", "1"), ("c", "1")]);
    watched.until_clean();
    dir.write("new/folder/d.yaml", map("d", "1")).unwrap();
    watched.until_objects(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
    dir.remove("new").unwrap();
    watched.until_objects(&[("a", "1"), ("b", "1"), ("c", "1")]);
}

#[test]
fn a_change_is_noticed_at_once() {
    let dir = Dir::new().unwrap();
    dir.write("a.yaml", map("a", "0")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "0")]);
    let mut slowest = Duration::ZERO;
    for version in ["1", "2", "3", "4", "5"] {
        std::thread::sleep(Duration::from_millis(120));
        let began = Instant::now();
        dir.write("a.yaml", map("a", version)).unwrap();
        watched.until_objects(&[("a", version)]);
        slowest = slowest.max(began.elapsed());
    }
    // The look now and then would take up to two seconds.
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

#[test]
fn editors_save_in_many_ways() {
    let dir = Dir::new().unwrap();
    dir.write("a.yaml", map("a", "0")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "0")]);
    // vim: the old file becomes the backup, the new one is written under its name, the backup goes.
    dir.rename("a.yaml", "a.yaml~").unwrap();
    std::thread::sleep(Duration::from_millis(30));
    fs::write(dir.file("a.yaml"), map("a", "1")).unwrap();
    dir.remove("a.yaml~").unwrap();
    watched.until_objects(&[("a", "1")]);
    // Others write a temporary file in the same directory and rename it.
    fs::write(dir.file("a.yaml.tmp"), map("a", "2")).unwrap();
    fs::rename(dir.file("a.yaml.tmp"), dir.file("a.yaml")).unwrap();
    watched.until_objects(&[("a", "2")]);
    // Others again remove it and create it.
    dir.remove("a.yaml").unwrap();
    fs::write(dir.file("a.yaml"), map("a", "3")).unwrap();
    watched.until_objects(&[("a", "3")]);
    // Renaming moves no object.
    dir.rename("a.yaml", "b.yaml").unwrap();
    watched.stays();
    assert_eq!(watched.history, ["+a=0", "+a=1", "+a=2", "+a=3"], "nothing was ever gone");
    watched.until_clean();
}

#[test]
fn a_file_that_is_being_written_is_left_alone() {
    let dir = Dir::new().unwrap();
    let whole = format!("{}---\n{}", map("a", "1"), map("b", "1"));
    dir.write("a.yaml", &whole).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1"), ("b", "1")]);
    // The watch is in place when a change has been noticed.
    dir.write("c.yaml", map("c", "1")).unwrap();
    watched.until_objects(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let next = whole.replace("v: \"1\"", "v: \"2\"");
    let (first, second) = next.split_once("---\n").unwrap();
    let parts = [first.as_bytes(), b"---\n", second.as_bytes()];
    dir.write_in_place("a.yaml", &parts, Duration::from_millis(250)).unwrap();
    watched.until_objects(&[("a", "2"), ("b", "2"), ("c", "1")]);
    assert!(!watched.history.contains(&"-b".to_string()), "{:?}", watched.history);
}

#[test]
fn what_does_not_parse_changes_nothing() {
    let dir = Dir::new().unwrap();
    dir.write("a.yaml", map("a", "1")).unwrap();
    dir.write("b.yaml", map("b", "1")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1"), ("b", "1")]);
    dir.write("a.yaml", "apiVersion: v1\nkind: [ConfigMap\n").unwrap();
    watched.until_finding("a.yaml", &["when it was last read stays in force"]);
    dir.write("b.yaml", map("b", "2")).unwrap();
    watched.until_objects(&[("a", "1"), ("b", "2")]);
    let finding = watched.findings.iter().find(|finding| finding.file.ends_with("a.yaml")).unwrap();
    assert!(finding.line >= 2 && finding.error, "{finding:?}");
    dir.write("a.yaml", map("a", "2")).unwrap();
    watched.until_objects(&[("a", "2"), ("b", "2")]);
    watched.until_clean();
    // One that never parsed holds nothing.
    dir.write("c.yaml", [0u8, 159, 146, 150, 0, 1, 2, 3]).unwrap();
    watched.until_finding("c.yaml", &["nothing of it is in force"]);
    dir.remove("c.yaml").unwrap();
    watched.until_clean();
}

#[test]
fn an_object_that_is_refused_keeps_its_last_accepted_version() {
    let dir = Dir::new().unwrap();
    dir.write("a.yaml", map("a", "1")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1")]);
    let refused = map("a", "2").replace("data:\n  v: \"2\"", "data: [1]");
    dir.write("a.yaml", &refused).unwrap();
    watched.until_finding("a.yaml", &["last accepted version stays in force"]);
    watched.stays();
    assert_eq!(watched.objects["a"], "1");
    dir.write("b.yaml", refused.replace("name: a", "name: b")).unwrap();
    watched.until_finding("b.yaml", &["it is not in force"]);
    dir.write("a.yaml", map("a", "3")).unwrap();
    watched.until_objects(&[("a", "3")]);
    dir.remove("b.yaml").unwrap();
    watched.until_clean();
}

#[test]
fn the_first_of_two_files_wins_by_path() {
    let dir = Dir::new().unwrap();
    dir.write("m.yaml", map("a", "middle")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "middle")]);
    dir.write("z.yaml", map("a", "last")).unwrap();
    watched.until_finding("z.yaml", &["m.yaml:1", "remove one of them"]);
    assert_eq!(watched.objects["a"], "middle");
    dir.write("b.yaml", map("a", "first")).unwrap();
    watched.until_objects(&[("a", "first")]);
    watched.until_finding("m.yaml", &["b.yaml:1"]);
    dir.remove("b.yaml").unwrap();
    watched.until_objects(&[("a", "middle")]);
    dir.remove("m.yaml").unwrap();
    watched.until_objects(&[("a", "last")]);
    watched.until_clean();
}

#[test]
fn kubernetes_swaps_a_link() {
    let dir = Dir::new().unwrap();
    dir.publish(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1"), ("b", "1")]);
    for version in ["2", "3"] {
        dir.publish(&[("a.yaml", &map("a", version)), ("b.yaml", &map("b", version))]).unwrap();
        watched.until_objects(&[("a", version), ("b", version)]);
    }
    assert!(!watched.history.iter().any(|change| change.starts_with('-')), "{:?}", watched.history);
    watched.until_clean();
}

/// Twelve directories that all link to each other have some 10^8 paths through them, and every file is there once.
#[test]
fn a_mesh_of_links_is_looked_at_once() {
    let dir = Dir::new().unwrap();
    dir.write("m0/a.yaml", map("a", "1")).unwrap();
    for one in 0..12 {
        fs::create_dir_all(dir.file(&format!("m{one}"))).unwrap();
        for other in (0..12).filter(|other| *other != one) {
            symlink(dir.file(&format!("m{other}")), dir.file(&format!("m{one}/l{other}"))).unwrap();
        }
    }
    let (directory, first) = Directory::open(&dir.path(), (SystemTime::now(), Instant::now())).unwrap();
    assert_eq!(first.objects.len(), 1);
    assert!(first.findings.is_empty(), "{:?}", first.findings);
    let (sender, updates) = channel();
    let _watch = directory.watch(move |update| sender.send(update).is_ok()).unwrap();
    dir.write("m0/a.yaml", map("a", "2")).unwrap();
    assert_eq!(updates.recv_timeout(PATIENCE).unwrap().objects.len(), 1);
}

#[test]
fn links_are_followed_and_cycles_end() {
    let dir = Dir::new().unwrap();
    let elsewhere = Dir::new().unwrap();
    elsewhere.write("a.yaml", map("a", "1")).unwrap();
    symlink(elsewhere.path(), dir.file("linked")).unwrap();
    symlink(dir.path(), elsewhere.file("back")).unwrap();
    symlink(dir.file("nowhere.yaml"), dir.file("dangling.yaml")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1")]);
    watched.until_finding("dangling.yaml", &["symbolic link to nothing"]);
    dir.write("nowhere.yaml", map("b", "1")).unwrap();
    watched.until_objects(&[("a", "1"), ("b", "1")]);
}

#[test]
fn a_directory_that_is_gone_takes_nothing_with_it() {
    let dir = Dir::new().unwrap();
    let files = || {
        dir.write("a.yaml", map("a", "1")).unwrap();
        dir.write("sub/b.yaml", map("b", "1")).unwrap();
    };
    files();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1"), ("b", "1")]);
    fs::remove_dir_all(dir.path()).unwrap();
    let name = dir.path().file_name().unwrap().to_string_lossy().into_owned();
    watched.until_finding(&name, &["cannot be listed", "stays in force"]);
    watched.stays();
    // Made again, with other content: what is no longer there goes, what is there stays.
    fs::create_dir(dir.path()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    dir.write("a.yaml", map("a", "2")).unwrap();
    watched.until_objects(&[("a", "2")]);
    watched.until_clean();
    dir.write("a.yaml", map("a", "3")).unwrap();
    watched.until_objects(&[("a", "3")]);
    assert_eq!(watched.history, ["+a=1", "+b=1", "+a=2", "-b", "+a=3"]);
}

#[test]
fn a_file_in_the_place_of_the_directory_takes_nothing_with_it() {
    let dir = Dir::new().unwrap();
    dir.write("manifests/a.yaml", map("a", "1")).unwrap();
    let root = dir.file("manifests");
    let (directory, _) = Directory::open(&root, (SystemTime::now(), Instant::now())).unwrap();
    let (sender, updates) = channel();
    let _watch = directory.watch(move |update| sender.send(update).is_ok()).unwrap();
    fs::rename(&root, dir.file("away")).unwrap();
    fs::write(&root, map("b", "1")).unwrap();
    let update = updates.recv_timeout(PATIENCE).unwrap();
    assert!(update.objects.is_empty() && update.findings.arisen[0].message.contains("cannot be listed"), "{update:?}");
    assert!(updates.recv_timeout(Duration::from_millis(2500)).is_err(), "nothing goes, nothing comes");
    fs::remove_file(&root).unwrap();
    fs::rename(dir.file("away"), &root).unwrap();
    let update = updates.recv_timeout(PATIENCE).unwrap();
    assert!(update.objects.is_empty() && update.findings.cleared.len() == 1, "{update:?}");
}

#[test]
fn a_directory_that_is_emptied_is_being_replaced_for_two_seconds() {
    let dir = Dir::new().unwrap();
    dir.write("a.yaml", map("a", "1")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1")]);
    dir.remove("a.yaml").unwrap();
    let name = dir.path().file_name().unwrap().to_string_lossy().into_owned();
    watched.until_finding(&name, &["holds no manifests any more", "2 s"]);
    assert_eq!(watched.objects.len(), 1);
    watched.until_objects(&[]);
    watched.until_clean();
}

#[test]
fn a_directory_is_swapped_whole() {
    let dir = Dir::new().unwrap();
    dir.write("one/a.yaml", map("a", "1")).unwrap();
    dir.write("two/a.yaml", map("a", "2")).unwrap();
    let root = dir.file("current");
    symlink(dir.file("one"), &root).unwrap();
    let (directory, first) = Directory::open(&root, (SystemTime::now(), Instant::now())).unwrap();
    assert_eq!(first.objects.len(), 1);
    let (sender, updates) = channel();
    let _watch = directory.watch(move |update| sender.send(update).is_ok()).unwrap();
    symlink(dir.file("two"), dir.file("next")).unwrap();
    fs::rename(dir.file("next"), &root).unwrap();
    let update = updates.recv_timeout(PATIENCE).unwrap();
    assert_eq!(update.objects.len(), 1);
    assert!(update.objects.values().all(Option::is_some) && update.findings.is_empty());
}

#[test]
fn what_is_too_large_or_not_readable_is_said() {
    let dir = Dir::new().unwrap();
    dir.write("a.yaml", map("a", "1")).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1")]);
    let large = fs::File::create(dir.file("large.yaml")).unwrap();
    large.set_len(FILE_LIMIT + 1).unwrap();
    drop(large);
    watched.until_finding("large.yaml", &["are not read", "split it", "nothing of it is in force"]);
    // The superuser may read everything.
    if fs::metadata(dir.path()).unwrap().uid() != 0 {
        fs::set_permissions(dir.file("a.yaml"), fs::Permissions::from_mode(0o000)).unwrap();
        watched.until_finding("a.yaml", &["permissions", "stays in force"]);
    }
    dir.write("a.yaml", map("a", "2")).unwrap();
    watched.until_objects(&[("a", "2")]);
    dir.remove("large.yaml").unwrap();
    watched.until_clean();
}

#[test]
fn lists_hold_many_objects_and_one_bad_does_not_harm_the_others() {
    let dir = Dir::new().unwrap();
    dir.write("all.yaml", format!("{}---\n{}---\n{}", map("a", "1"), map("b", "1"), map("c", "1"))).unwrap();
    let mut watched = Watched::new(&dir);
    watched.until_objects(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let bad = map("b", "2").replace("data:\n  v: \"2\"", "data: [1]");
    dir.write("all.yaml", format!("{}---\n{bad}---\n{}", map("a", "2"), map("c", "2"))).unwrap();
    watched.until_objects(&[("a", "2"), ("b", "1"), ("c", "2")]);
    watched.until_finding("all.yaml", &["last accepted version stays in force"]);
    // Leaving the file out is deleting it.
    dir.write("all.yaml", map("a", "2")).unwrap();
    watched.until_objects(&[("a", "2")]);
    watched.until_clean();
}

#[test]
fn a_directory_that_is_not_there_is_an_error_at_the_start() {
    let dir = Dir::new().unwrap();
    let error = Directory::open(&dir.file("none"), (SystemTime::now(), Instant::now())).err().unwrap().to_string();
    assert!(error.contains("none") && error.contains("name a directory"), "{error}");
    // A single file is as good as a directory.
    dir.write("a.yaml", map("a", "1")).unwrap();
    let (_, update) = Directory::open(&dir.file("a.yaml"), (SystemTime::now(), Instant::now())).unwrap();
    assert_eq!(update.objects.len(), 1);
}
