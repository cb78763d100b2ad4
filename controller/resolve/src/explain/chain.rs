//! Which filter chain takes a TLS connection.

use portolan_model::ir::{ChainPlan, ListenerPlan};

use crate::hostname;

/// Envoy tries the server name, then wildcards from the longest, then chains without names. A name belongs to the first chain that has
/// it.
pub(super) fn choose<'a>(plan: &'a ListenerPlan, sni: Option<&str>) -> Option<&'a ChainPlan> {
    let served = || plan.chains.iter().filter(|chain| !chain.certificates.is_empty());
    let named = sni.and_then(|sni| {
        let names = std::iter::once(sni.into()).chain(hostname::wildcards_above(sni));
        names.into_iter().find_map(|name| served().find(|chain| chain.server_names.contains(&name)))
    });
    named.or_else(|| served().find(|chain| chain.server_names.is_empty()))
}
