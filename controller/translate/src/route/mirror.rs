//! RequestMirror.

use portolan_model::ir::MirrorPlan;
use portolan_model::objects::Fraction;
use portolan_proto::envoy::core::RuntimeFractionalPercent;
use portolan_proto::envoy::route::route_action::RequestMirrorPolicy;
use portolan_proto::envoy::types::{FractionalPercent, fractional_percent::DenominatorType};

/// Parts that fractions are counted in: the finest that Envoy has.
pub const MILLION: u32 = 1_000_000;

pub fn policy(plan: &MirrorPlan) -> RequestMirrorPolicy {
    RequestMirrorPolicy {
        cluster: plan.cluster.resource_name(),
        runtime_fraction: Some(fraction(millionths(plan.fraction))),
        // The copy is a copy: Envoy would add `-shadow` to the host.
        disable_shadow_host_suffix_append: true,
        ..Default::default()
    }
}

pub fn fraction(millionths: u32) -> RuntimeFractionalPercent {
    RuntimeFractionalPercent {
        default_value: Some(FractionalPercent { numerator: millionths, denominator: DenominatorType::Million.into() }),
        ..Default::default()
    }
}

fn millionths(share: Fraction) -> u32 {
    let exact = u64::from(share.numerator) * u64::from(MILLION);
    let rounded = exact.checked_div(u64::from(share.denominator)).unwrap_or(0);
    u32::try_from(rounded).unwrap_or(MILLION).min(MILLION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_become_millionths() {
        let of = |numerator, denominator| millionths(Fraction { numerator, denominator });
        assert_eq!(
            [of(20, 100), of(1, 3), of(0, 5), of(7, 7), of(9, 7), of(1, 0)],
            [200_000, 333_333, 0, MILLION, MILLION, 0]
        );
        assert_eq!(of(u32::MAX, u32::MAX), MILLION);
    }
}
