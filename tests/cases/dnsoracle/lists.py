"""Which plugins a case needs, read from its Corefiles, and the lists of ready and waiting cases."""
import os
import re

PLUGINS = frozenset("""
    root metadata geoip cancel tls https https3 quic grpc_server proxyproto timeouts multisocket reload nsid bufsize
    bind debug trace ready health pprof prometheus errors log dnstap local dns64 any chaos loadbalance tsig cache
    rewrite acl header dnssec autopath minimal template transfer hosts route53 azure clouddns k8s_external kubernetes
    file auto secondary etcd loop forward grpc erratic whoami on sign view nomad
""".split())
TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\])*"|`[^`]*`|[^\s"`]\S*|\n', re.DOTALL)


def lines_of(text):
    """The words of a Corefile, line by line; comments are gone, quoted words count as one."""
    line = []
    for m in TOKEN.finditer(text):
        word = m.group()
        if word == "\n":
            if line:
                yield line
            line = []
        elif not word.startswith("#"):
            line.append(word)
    if line:
        yield line


def directives(text):
    """Plugin names that stand where a directive stands: first on a line, outside a directive's own block.

    A file that is imported has no block around it and a Corefile may leave its only block's braces out, so
    lines outside all braces count as well.
    """
    depth, found = 0, set()
    for line in lines_of(text):
        if depth <= 1 and line[0] in PLUGINS:
            found.add(line[0])
        # `zone { plugin }` on one line is refused by the reference, but what it names still counts
        if depth == 0 and "{" in line[:-1]:
            found |= {w for w in line[line.index("{") + 1:] if w in PLUGINS}
        depth += sum(w.endswith("{") for w in line if w == "{" or depth == 0) - line.count("}")
        depth = max(depth, 0)
    return found


def needs(spec, case):
    """Plugins of a Corefile and of the files beside it that it imports."""
    text = spec.get("corefile", "")
    found = directives(text)
    if re.search(r"^\s*import\s", text, re.MULTILINE):
        for name, body in {**case.get("files", {}), **spec.get("files", {})}.items():
            if not re.match(r"db\.|.*\.(pem|key|mmdb|txt)$", name):
                found |= directives(body)
    return found


def needs_of(case):
    """All plugins that a whole case needs; of a list of Corefiles none, since each is judged by itself."""
    if "configs" in case:
        return set()
    found = needs(case, case)
    for step in case["steps"]:
        if isinstance(step, dict) and "write" in step:
            for name, body in step["write"].items():
                if "orefile" in name or name.endswith(".conf"):
                    found |= directives(body)
    return found


def read_plugins(path):
    """The plugins that a file lists, any number a line, `#` begins a comment."""
    with open(path) as f:
        return frozenset(w for line in f for w in line.partition("#")[0].split())


def read_names(path):
    """The case names of a list: the first word of each line that is no comment."""
    with open(path) as f:
        return [line.split()[0] for line in f if line.strip() and not line.startswith("#")]


def missing(spec, case, plugins):
    """What a Corefile of a case needs and the list of plugins has not."""
    return needs(spec, case) - plugins


def sort(cases, plugins, held):
    """Two tables, name to reason: the cases that have all that they need, and those that wait."""
    ready, waiting = {}, {}
    for case in cases:
        name, lacks = case["name"], needs_of(case) - plugins
        if name in held:
            waiting[name] = "held: " + held[name]
        elif lacks:
            waiting[name] = "needs " + " ".join(sorted(lacks))
        else:
            ready[name] = ""
            out = [c["name"] for c in case.get("configs", []) if missing(c, case, plugins)]
            if out:
                ready[name] = f"# all but {len(out)} of its {len(case['configs'])} Corefiles"
    return ready, waiting


def read_held(path):
    """The cases of a list of waiting ones that are held back by hand (`NAME held: REASON`)."""
    with open(path) as f:
        rows = [line.split(None, 2) for line in f if not line.startswith("#")]
    return {r[0]: r[2].strip() for r in rows if len(r) == 3 and r[1] == "held:"}


def texts(folder, cases):
    """What ready.txt and waiting.txt of a folder have to say."""
    plugins = read_plugins(os.path.join(folder, "plugins.txt"))
    path = os.path.join(folder, "waiting.txt")
    ready, waiting = sort(cases, plugins, read_held(path) if os.path.exists(path) else {})
    lacks = sorted({w for why in waiting.values() if why.startswith("needs ") for w in why.split()[1:]})
    held = sum(why.startswith("held: ") for why in waiting.values())
    head = (f"# {len(ready)} of {len(ready) + len(waiting)} cases must pass: they need only the plugins of plugins.txt.\n"
            "# Written by `python -m dnsoracle sort`; tests/run runs each of them.\n")
    tail = (f"# {len(waiting)} of {len(ready) + len(waiting)} cases wait: {len(waiting) - held} for plugins that are not in plugins.txt\n"
            f"# ({', '.join(lacks)}), {held} for the reason given.\n"
            "# Written by `python -m dnsoracle sort`, which keeps lines of the form `NAME held: REASON`.\n")
    return (head + "".join(f"{n:22} {why}".rstrip() + "\n" for n, why in sorted(ready.items())),
            tail + "".join(f"{n:22} {why}\n" for n, why in sorted(waiting.items())))


def write(folder, cases):
    """Write both lists anew."""
    for name, text in zip(("ready.txt", "waiting.txt"), texts(folder, cases)):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
