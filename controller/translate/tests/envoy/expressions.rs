//! `portolan_resolve::re2` against the judge: what it takes, Envoy takes, and what it refuses, Envoy refuses.

use std::sync::Arc;

use portolan_model::ir::{PathSpec, RuleAction};
use portolan_resolve::re2::{Problem, check};
use portolan_testkit::envoy::validate;
use portolan_translate::listener;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use crate::accepted::configuration;
use crate::cases::build::*;

/// Forms that are easy to get wrong, beside those that the checker's own tests name.
#[rustfmt::skip]
const FORMS: [&str; 123] = [
    // Accepted
    "", "/", "/a|/b", "(/a|)", "()", "(|a)", "a||b", "^/x$", r"\A/x\z", "(?i)/x", "(?s:.)", "(?m:^a$)", "(?U)a+",
    "(?im-s:a)", "(?P<name>a)", "(?<name>a)", "(?:a)+?", "a{0}", "a{3}", "a{3,}", "a{3,5}?", "a{,5}", "a{x}", "{",
    "}", "]", "a{1", "x{1000}", "(x{100}){10}", "[a-z]", "[]-a]", "[^]a]", "[a^]", r"[\]]", r"[\w.-]", "[[:word:]]",
    "[[:^space:]x]", "[[.a.]]", "[[=a=]]", "[a[:digit:]]", r"\pN", r"\p{Lu}", r"\P{Greek}", r"\p{^Lu}",
    r"[\p{Han}a]", r"\d\D\s\S\w\W", r"\b\B", r"\a\f\t\n\r\v", r"\123", r"\07", r"\x7F", r"\x{FF}", r"\x{0}",
    r"\Q*\E", r"\Q", r"\Q\E", r"\C+", r"[\d-a]", r"[a\-z]", r"\!\/\%", "é", "[é-ü]", "[ü-é]", "日本{2}", "(?i)ß",
    ".*.*.*", "((((((((((a))))))))))", "(a*)*", "(a+)+", "(a{2})*", "a{2}b{3}", "^^a", "$$", r"\b*a", "(?:)*",
    "x*|y+", r"[^\s\S]",
    // Refused
    "(", ")", "a)", "[", "[a", "[z-a]", "*", "+a", "?", "|*", "a**", "a*+", "a{2}{2}", "a??+", "a{1001}", "a{2,1}",
    "(a{50}){50}", "(?", "(?a)", "(?=a)", "(?!a)", "(?<=a)", "(?#c)", "(?>a)", "(?P=a)", "(?P>a)", "(?1)",
    "(?P<1>a", "(?<a-b>c)", r"\", r"a\", r"\1", r"\8", r"\e", r"\h", r"\R", r"\X", r"\K", r"\G", r"\N", r"\cA",
    r"\xZ", r"\x{100}", r"\x{10FFFF}", "[é-a]", r"\é",
];

fn refused_by_envoy(patterns: &[&str]) -> Option<String> {
    let id = http_table(80);
    let rules = patterns.iter().map(|pattern| rule(on(PathSpec::Regex(Arc::from(*pattern))), RuleAction::Respond(500)));
    let table = table(&id, &[host(id.clone(), "*", rules.collect())]);
    let snapshot = snapshot([listener(&listener_plan(80, loopback())), table]);
    validate(&configuration(&snapshot)).err().map(|error| format!("{error:#}"))
}

/// The patterns of a set that Envoy is said to take, but does not.
fn wrongly_taken<'a>(patterns: &[&'a str]) -> Vec<(&'a str, String)> {
    let Some(text) = refused_by_envoy(patterns) else { return Vec::new() };
    match patterns {
        [one] => vec![(one, text)],
        _ => {
            let (left, right) = patterns.split_at(patterns.len() / 2);
            [wrongly_taken(left), wrongly_taken(right)].concat()
        }
    }
}

/// The patterns that Envoy is said to refuse, but takes. Each needs a run of its own, since Envoy stops at the first.
fn wrongly_refused<'a>(patterns: &[&'a str]) -> Vec<&'a str> {
    patterns.iter().copied().filter(|pattern| refused_by_envoy(&[pattern]).is_none()).collect()
}

/// Random sequences of the dialect's pieces; the same ones on every run.
fn random() -> Vec<String> {
    let pieces: Vec<&str> = vec![
        "a",
        "b",
        ".",
        "/",
        "-",
        "^",
        "$",
        "|",
        "(",
        ")",
        "(?:",
        "(?i)",
        "(?P<n>",
        "[",
        "]",
        "[a-z]",
        "[^/]",
        "[[:alpha:]]",
        "*",
        "+",
        "?",
        "{2}",
        "{1,3}",
        "{,2}",
        r"\d",
        r"\w",
        r"\b",
        r"\.",
        r"\pL",
        r"\p{Lu}",
        r"\Q",
        r"\E",
        r"\",
        r"\x41",
        r"\1",
        "é",
        "{",
        "}",
        ",",
        "&&",
    ];
    let strategy = proptest::collection::vec(proptest::sample::select(pieces), 1..8);
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    (0..300).map(|_| strategy.new_tree(&mut runner).unwrap().current().concat()).collect()
}

#[test]
fn the_checker_and_envoy_agree() {
    let random = random();
    let patterns = FORMS.into_iter().chain(random.iter().map(String::as_str));
    // A name that two groups have is refused by RE2's documentation, and taken by this Envoy.
    let patterns =
        patterns.filter(|pattern| !check(pattern).is_err_and(|error| error.problem == Problem::BadGroupName));
    let (taken, refused): (Vec<&str>, Vec<&str>) = patterns.partition(|pattern| check(pattern).is_ok());
    assert!(taken.len() > 150 && refused.len() > 100, "{} and {}", taken.len(), refused.len());
    let wrong = wrongly_taken(&taken);
    assert!(wrong.is_empty(), "Envoy refuses: {wrong:#?}");
    // The random ones that are refused are many and much alike, and each costs 0.1 s.
    let wrong = wrongly_refused(refused.get(..100).unwrap());
    assert!(wrong.is_empty(), "Envoy takes: {wrong:#?}");
}

/// What the checker takes is never too large for the limit in the bootstrap.
#[test]
fn large_expressions() {
    let largest = "x{1000}".repeat(45);
    for pattern in [&*largest, r"\pL{100}", "(?:/[^/]{1,63}){15}", r"\p{Lu}{20}|\p{Ll}{20}"] {
        assert_eq!((check(pattern), refused_by_envoy(&[pattern])), (Ok(()), None), "{pattern}");
    }
    assert!(check(&"x{1000}".repeat(200)).is_err());
}
