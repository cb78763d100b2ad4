//! RequestMirror.

use portolan_model::ir::MirrorPlan;
use portolan_model::objects::{Fraction, Mirror};

use super::{Context, Finding, backends};

/// Where requests are copied to; `None` for a share of zero. "If the referent cannot be found, this BackendRef is invalid and must be
/// dropped from the Gateway. The controller must ensure the `ResolvedRefs` condition on the Route status is set to `status: False`"
/// (HTTPRequestMirrorFilter.backendRef): the rule itself goes on.
pub(super) fn plan(context: &Context<'_>, mirror: &Mirror, field: &str) -> Result<Option<MirrorPlan>, Finding> {
    let field = format!("{field}.requestMirror.backendRef");
    let cluster = backends::look_up(context, &field, &mirror.backend, mirror.port)?;
    let Fraction { numerator, denominator } = mirror.fraction;
    let fraction = Fraction { numerator: numerator.min(denominator), denominator };
    Ok((fraction.numerator > 0).then_some(MirrorPlan { cluster, fraction }))
}
