"""Scaling a cluster, step by step: observe, decide, act, verify; each may be done twice.

A decision is a row before it acts; its second row says what came of it. So a kill between two steps
is mended by doing the rest, by whoever comes next.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from penstock.config.cluster import Cluster
from penstock.config.settings import Settings
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, TransientError
from penstock.core.scaling import Rule, Tau, Verdict, decide
from penstock.core.window import instant, micros
from penstock.lake.cluster.load import Load, loads, taus
from penstock.lake.cluster.scalings import DECIDED, Scaling, Scalings
from penstock.lake.storage.tables import Tables
from penstock.runtime.cluster import control
from penstock.runtime.cluster.state import ClusterFiles

LEFT = timedelta(minutes=10)
"""Beyond its deadline, an open decision that nobody ended counts as failed."""


class Scaler:
    """Scales the cluster of a home folder.

    Args:
        settings: where it is.
        cluster: its file.
        clock: of what is written.
        logs: whose load counts: names of their pipelines.
    """

    def __init__(
        self, settings: Settings, cluster: Cluster, clock: Clock, logs: Sequence[str]
    ) -> None:
        self.settings, self.cluster, self.clock = settings, cluster, clock
        self.files = ClusterFiles(settings.home)
        self.scalings = Scalings(settings.lake_uri, clock)
        self.tables = [Tables(settings.lake_uri, name) for name in logs]

    def observe(self) -> dict[str, Any]:
        """What a decision goes by, in words and figures that are kept with it.

        Raises:
            TransientError: nobody keeps the cluster.
        """
        state, now = self.files.read(), self.clock.now()
        if not state.alive:
            raise TransientError("the cluster is not up: penstock cluster up")
        found = self._taus()
        return {
            "wanted": state.wanted,
            "registered": state.registered,
            "nodes": {node.name: node.state for node in state.nodes},
            "least": self.cluster.rules(now).least,
            "most": self.cluster.nodes.most,
            "tau": [round(tau.tau, 3) for tau in found[-12:]],
        }

    def due(self) -> Verdict | None:
        """What the rules ask for now; none: nothing, or it is too early to say."""
        return self.judged(self._taus())

    def judged(self, found: Sequence[Tau]) -> Verdict | None:
        """The same of a load that was read already."""
        now, changed = self.clock.now(), self.scalings.changed()
        rules = self.cluster.rules(now)
        return decide(found, self.files.read().wanted, rules, micros(now), changed)

    @property
    def reach(self) -> timedelta:
        """So far back the rules look."""
        scale = self.cluster.scale
        return max(scale.in_after, scale.out_after) + timedelta(minutes=1)

    def decide(
        self, run_id: str, inputs: Mapping[str, Any], asked: int | None, reason: str
    ) -> Scaling | None:
        """Write down what should be done; none: nothing.

        Args:
            run_id: who decides; twice the same gives the same decision.
            inputs: what was observed.
            asked: so many nodes somebody wants; none: as the rules say.
            reason: why somebody wants them.

        Raises:
            ConfigError: there may not be so many.
            ConflictError: another scaling is not over.
        """
        self._end_left()
        wanted, nodes = self.files.read().wanted, self.cluster.nodes
        if asked is not None and not 0 <= asked <= nodes.most:
            raise ConfigError(f"{asked} nodes: there may be 0 to {nodes.most} ({nodes.most} are"
                              f" the most in {self.settings.cluster.name})")  # fmt: skip
        if (mine := self.scalings.of(run_id)) is not None:
            return mine
        verdict = self.due() if asked is None else Verdict(
            asked, Rule.ASKED, reason or "asked for by hand"
        )  # fmt: skip
        if verdict is None or verdict.nodes == wanted:
            return None
        return self.scalings.decide(verdict, wanted, inputs, run_id)

    def act(self, scaling: Scaling) -> None:
        """Want so many nodes: the cluster's supervisor brings it about."""
        if scaling.state == DECIDED:
            self.files.want(scaling.wanted)

    def verify(self, scaling: Scaling) -> Scaling:
        """Wait until it is so, and write down what came of it.

        Raises:
            TransientError: nodes did not come, or did not go; the second row says it, too.
        """
        if scaling.state != DECIDED:
            return scaling
        more = scaling.wanted > scaling.nodes
        limit = self.cluster.scale.come if more else self.cluster.scale.drain * 2
        try:
            state = control.wait(self.settings, limit, lambda _: None)
        except TransientError as failed:
            found = self.files.read().registered
            self.scalings.over(scaling, found, failed=str(failed))
            raise
        return self.scalings.over(scaling, state.registered)

    def _taus(self) -> list[Tau]:
        since = self.clock.now() - self.reach
        return taus([loads(tables, since) for tables in self.tables])

    def _end_left(self) -> None:
        """A decision whose run was killed for good must not be in the way for ever."""
        scale, left = self.cluster.scale, self.scalings.open()
        if left is None:
            return
        until = left.at + micros(max(scale.come, scale.drain * 2) + LEFT)
        if micros(self.clock.now()) > until:
            found = self.files.read().registered
            self.scalings.over(left, found, failed="nobody saw it through: its run ended before")


class LoadReader:
    """Follows the load of some pipelines, as far back as the rules look."""

    def __init__(self, scaler: Scaler) -> None:
        self._scaler = scaler
        self._kept = [(tables, deque[Load]()) for tables in scaler.tables]

    def verdict(self) -> Verdict | None:
        """What the rules ask for now."""
        first = micros(self._scaler.clock.now() - self._scaler.reach)
        for tables, kept in self._kept:
            while kept and kept[0].at < first:
                kept.popleft()
            kept.extend(loads(tables, instant(kept[-1].at + 1 if kept else first)))
        return self._scaler.judged(taus([kept for _, kept in self._kept]))
