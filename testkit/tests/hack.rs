//! The scripts under hack/ that others rely on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack").join(name))
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn counts_add_up_over_test_binaries_and_none_is_a_failure() {
    let count = |log: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log).unwrap();
        script("count.sh").arg(file.path()).output().unwrap()
    };
    let line = |passed, failed| {
        format!(
            "test result: ok. {passed} passed; {failed} failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.17s\n"
        )
    };
    let counted = count(
        &(line(15, 0)
            + "noise\n"
            + &line(0, 0)
            + &line(4, 2)
            + "--- PASS: TestGo (0.00s)\n    --- PASS: TestGo/sub (0.00s)\n"),
    );
    assert!(counted.status.success());
    assert_eq!(stdout(&counted), "2 test binaries of Rust, 1 tests of Go\n20 passed, 2 failed, 3 skipped");
    assert!(!count("nothing ran\n").status.success());
}

#[test]
fn a_given_envoy_is_taken_or_refused_by_name() {
    let given = |path: &str| script("envoy.sh").env("PORTOLAN_ENVOY", path).output().unwrap();
    let taken = given("/bin/sh");
    assert_eq!((taken.status.success(), stdout(&taken)), (true, "/bin/sh".to_owned()));
    let refused = given("/no/such/envoy");
    assert!(!refused.status.success());
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("/no/such/envoy") && words.contains("PORTOLAN_ENVOY"), "{words}");
}

#[test]
fn an_image_depends_on_what_is_in_it_alone() {
    let image = |contents: &str, mode: u32| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        std::fs::write(&file, contents).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let out = dir.path().join("image.tar");
        let status = script("mkimage.py")
            .arg(&out)
            .args(["--tag", "localhost/a:1", "--entrypoint", r#"["/program"]"#])
            .arg(format!("{}:/program", file.display()))
            .status()
            .unwrap();
        assert!(status.success());
        std::fs::read(out).unwrap()
    };
    let one = image("one", 0o755);
    assert!(one == image("one", 0o700), "another umask and another time");
    assert!(one != image("two", 0o755));
    assert!(one != image("one", 0o644), "a program and a file");
}

#[test]
fn the_image_of_portolan_holds_what_its_program_needs() {
    let dir = tempfile::tempdir().unwrap();
    let image = |name: &str| {
        let out = dir.path().join(name);
        let output = script("image.sh").arg(&out).env("PORTOLAN_BINARY", "/bin/sh").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(out).unwrap()
    };
    let one = image("one.tar");
    assert!(one == image("two.tar"), "the same input, other bytes");
    let holds = |name: &str| one.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    for part in [
        "usr/local/bin/portolan",
        "libc.so.6",
        "etc/ssl/certs/ca-certificates.crt",
        "localhost/portolan:dev",
        "65532:65532",
    ] {
        assert!(holds(part), "{part}");
    }
}

#[test]
fn without_python_the_message_says_what_to_install() {
    // A PATH with the shell's tools and nothing else.
    let tools = tempfile::tempdir().unwrap();
    for tool in ["bash", "env", "dirname", "uname", "mkdir", "mktemp", "rm"] {
        let found = ["/usr/bin", "/bin"]
            .iter()
            .map(|place| PathBuf::from(place).join(tool))
            .find(|path| path.exists())
            .unwrap();
        std::os::unix::fs::symlink(found, tools.path().join(tool)).unwrap();
    }
    let cache = tempfile::tempdir().unwrap();
    let output = script("envoy.sh")
        .env_remove("PORTOLAN_ENVOY")
        .env("XDG_CACHE_HOME", cache.path())
        .env("PATH", tools.path())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success()
            && words.contains("python3 is not on PATH")
            && words.contains("apt-get install python3"),
        "{words}"
    );
    let left: Vec<_> =
        std::fs::read_dir(cache.path().join("portolan")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["envoy-1.40.0"], "no staging directory is left behind");
}
