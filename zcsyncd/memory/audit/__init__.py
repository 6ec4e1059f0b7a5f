"""Stage 2's judgement: a snapshot to findings. Pure."""

from zcsyncd.memory.audit.finding import SEVERITIES, Finding, Severity, counts
from zcsyncd.memory.audit.index_rules import indexed
from zcsyncd.memory.audit.judge import audit
from zcsyncd.memory.audit.rules import RULES, Rule

__all__ = ["RULES", "SEVERITIES", "Finding", "Rule", "Severity", "audit", "counts", "indexed"]
