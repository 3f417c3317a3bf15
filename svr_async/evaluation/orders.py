"""Which response is shown first: order policies, the audit that judges a sample both ways, and the one by margin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from svr_async.core.pair import Order, PreferencePair, hashed_fraction, hashed_order

AUDIT_SALT = "svr-audit"


class OrderPolicy(StrEnum):
    """`hash`: a bit of SHA-256(salt ‖ pair id); `ab`: the data set's order; `ba`: swapped; `both`: margins averaged."""

    HASH = "hash"
    AB = "ab"
    BA = "ba"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """A policy with the share of pairs that are judged both ways only to see whether the order matters.

    With `audit_below` the policy `both` asks a second time only where the first |margin| is below it.
    """

    policy: OrderPolicy = OrderPolicy.HASH
    audit: float = 0.05
    salt: str = "svr"
    audit_below: float | None = None

    def orders(self, pair: PreferencePair) -> tuple[Order, ...]:
        """Return the orders in which a pair may be shown; the first decides unless the policy is `both`."""
        if self.policy is OrderPolicy.BOTH and self.audit_below is None:
            return (Order.AB, Order.BA)
        hashed = self.policy in {OrderPolicy.HASH, OrderPolicy.BOTH}
        first = hashed_order(pair.id, self.salt) if hashed else Order(self.policy.value)
        if self.policy is OrderPolicy.BOTH or hashed_fraction(AUDIT_SALT, self.salt, pair.id) < self.audit:
            return (first, Order.BA if first is Order.AB else Order.AB)
        return (first,)

    def settled_by(self, margin: float | None) -> bool:
        """Whether the margin of the first order is enough, so that the second is not asked."""
        return self.audit_below is not None and (margin is None or abs(margin) >= self.audit_below)
