"""Which response is shown first: order policies, and the audit that judges a sample both ways."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from svr_async.vocabulary.pair import Order, PreferencePair, hashed_fraction, hashed_order

AUDIT_SALT = "svr-audit"


class OrderPolicy(StrEnum):
    """`hash`: a bit of SHA-256(salt ‖ pair id); `ab`: the data set's order; `ba`: swapped; `both`: margins averaged."""

    HASH = "hash"
    AB = "ab"
    BA = "ba"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPlan:
    """A policy with the share of pairs that are judged both ways only to see whether the order matters."""

    policy: OrderPolicy = OrderPolicy.HASH
    audit: float = 0.05
    salt: str = "svr"

    def orders(self, pair: PreferencePair) -> tuple[Order, ...]:
        """Return the orders in which a pair is shown; the first decides unless the policy is `both`."""
        if self.policy is OrderPolicy.BOTH:
            return (Order.AB, Order.BA)
        first = hashed_order(pair.id, self.salt) if self.policy is OrderPolicy.HASH else Order(self.policy.value)
        if hashed_fraction(AUDIT_SALT, self.salt, pair.id) < self.audit:
            return (first, Order.BA if first is Order.AB else Order.AB)
        return (first,)
