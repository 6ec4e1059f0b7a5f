"""Made-up facts as agents write them, English and Chinese, a few hundred bytes each; the same ones at every run.

Words are as unevenly common as in real texts: the n-th of a list comes about 1/n times as often as the first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

_NOUNS = (
    "build test database server cache release token branch deploy queue module schema migration index config "
    "timeout container pipeline endpoint session worker parser template backup certificate runner dashboard alert "
    "snapshot cluster replica webhook gateway fixture linter mirror registry tenant invoice shipment ledger harbour "
    "berth tide almanac sextant"
).split()
_VERBS = (
    "needs uses writes reads breaks checks keeps skips replaces loads sends blocks returns rejects stores renames "
    "restarts validates exports rotates"
).split()
_ADJECTIVES = (
    "old new slow shared nightly internal local generated flaky manual public stale encrypted deprecated idempotent"
).split()
_REASONS = (
    "because the previous one failed twice in production",
    "since the customer asked for it in the last review",
    "otherwise the nightly job overwrites the result",
    "which was decided after the outage in spring",
    "unless the feature flag is switched off",
    "so nobody has to look it up again",
)
_THINGS = (
    "构建 测试 数据库 服务器 缓存 发布 令牌 分支 部署 队列 模块 迁移 索引 配置 超时 容器 流水线 接口 会话 解析器 "
    "模板 备份 证书 仪表盘 告警 快照 集群 网关 镜像 租户 发票 账本 港口 泊位 潮汐"
).split()
_DOES = "需要 使用 写入 读取 检查 保留 跳过 替换 加载 发送 阻塞 返回 拒绝 存储 重启 验证 导出 轮换".split()
_SINCE = (
    "因为上一次在生产环境失败了两次",
    "这是上次评审时客户要求的",
    "否则夜间任务会覆盖结果",
    "故障之后才这样决定",
    "除非关闭功能开关",
    "以后不用再查一遍",
)


def made_up_fact(number: int, least_bytes: int = 0) -> tuple[str, str]:
    """Give a fact's file and its text; of four one is Chinese, and one mixes both.

    Its body has two to four paragraphs, and more until it has `least_bytes`.
    """
    chance = random.Random(number)
    say = (_english, _english, _chinese, _mixed)[number % 4]
    description = say(chance, number)
    paragraphs = [f"{say(chance, number)} {say(chance, number)}" for _ in range(chance.randint(2, 4))]
    while len((body := "\n\n".join(paragraphs)).encode()) < least_bytes:
        paragraphs.append(f"{say(chance, number)} {say(chance, number)}")
    name = f"{_pick(chance, _NOUNS)}-{_pick(chance, _VERBS)}-{number:05}"
    kind = chance.choice(("user", "feedback", "project", "reference"))
    text = (
        f"---\nname: {name}\ndescription: {description}\nmetadata:\n  node_type: memory\n  type: {kind}\n---\n\n"
        f"{body}\n"
    )
    return f"{name}.md", text


def _english(chance: random.Random, number: int) -> str:
    subject, target = (f"{_pick(chance, _ADJECTIVES)} {_pick(chance, _NOUNS)}" for _ in range(2))
    place = f"ticket OPS-{number}" if chance.random() < 0.1 else f"src/{_pick(chance, _NOUNS)}.py"
    return f"The {subject} {_pick(chance, _VERBS)} the {target} in {place} {chance.choice(_REASONS)}."


def _chinese(chance: random.Random, number: int) -> str:
    words = (_pick(chance, _THINGS), _pick(chance, _DOES), _pick(chance, _THINGS))
    ticket = f"\uff08工单 {number}\uff09" if chance.random() < 0.1 else ""
    return f"{''.join(words)}{ticket}\uff0c{chance.choice(_SINCE)}。"


def _mixed(chance: random.Random, number: int) -> str:
    return f"{_pick(chance, _NOUNS)} 的{_chinese(chance, number)}"


def _pick(chance: random.Random, words: Sequence[str]) -> str:
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return chance.choices(words, cum_weights=weights)[0]
