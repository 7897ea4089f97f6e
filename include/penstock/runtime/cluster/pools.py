"""The pools there are."""

from penstock.config.cluster import Cluster, PoolKind
from penstock.config.settings import Settings
from penstock.core.clock import Clock
from penstock.runtime.cluster.compose import Compose
from penstock.runtime.cluster.pool import NodePool
from penstock.runtime.cluster.standalone import Standalone


def pool_for(settings: Settings, cluster: Cluster, clock: Clock) -> NodePool:
    """The pool that the file of the cluster names."""
    if cluster.pool is PoolKind.COMPOSE:
        return Compose(settings, cluster)
    return Standalone(settings, cluster, clock)
