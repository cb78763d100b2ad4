//! What of fleets could not be made as it should be: by the applier, and by whoever keeps credentials.

use std::collections::BTreeMap;
use std::sync::Arc;

use portolan_kubernetes::applier::{Problem, Uid};
use portolan_model::Name;
use tokio::sync::watch;

/// By the UID of its Gateway.
pub type Troubles = BTreeMap<Uid, Vec<Name>>;

/// Tells all of them whenever they have changed, until `tell` says that nobody listens.
pub async fn follow(
    mut applier: watch::Receiver<BTreeMap<Uid, Vec<Problem>>>,
    mut keeper: watch::Receiver<BTreeMap<Uid, String>>,
    tell: impl Fn(Troubles) -> bool,
) {
    loop {
        let mut all = Troubles::new();
        for (uid, problems) in applier.borrow_and_update().iter() {
            let texts = problems.iter().map(|problem| Name::from(format!("{}: {}", problem.object, problem.text)));
            all.entry(Arc::clone(uid)).or_default().extend(texts);
        }
        for (uid, text) in keeper.borrow_and_update().iter() {
            all.entry(Arc::clone(uid)).or_default().push(Name::from(text.as_str()));
        }
        if !tell(all) {
            return;
        }
        let changed = tokio::select! {
            changed = applier.changed() => changed,
            changed = keeper.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}
