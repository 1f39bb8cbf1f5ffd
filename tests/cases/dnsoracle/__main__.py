"""Command line:  python -m dnsoracle record|check|list|sort ..."""
import argparse
import concurrent.futures
import glob
import json
import os
import shlex
import sys
import time

import yaml

from . import lists
from .compare import judge
from .runner import CaseRun


def find_cases(paths):
    """The case files among the paths, folders searched."""
    out = []
    for p in paths:
        out += sorted(glob.glob(os.path.join(p, "**", "*.yaml"), recursive=True)) if os.path.isdir(p) else [p]
    return out


def load(path):
    """One case, with its path and its name."""
    with open(path) as f:
        case = yaml.safe_load(f)
    case["path"] = path
    case.setdefault("name", os.path.splitext(os.path.basename(path))[0])
    return case


def golden_path(path):
    """Where the recorded answers of a case lie."""
    return path[: -len(".yaml")] + ".golden.json"


def run_case(path, args, plugins):
    """Run one case; returns it, what was seen (None if it was left out) and the seconds that it took."""
    case, begin = load(path), time.monotonic()
    if "kube" in case and not args.testbed:
        return case, None, 0
    if plugins is not None and "configs" in case:
        case["configs"] = [c for c in case["configs"] if not lists.missing(c, case, plugins)]
    rows = CaseRun(case, args.server, args.keep, args.testbed).run()
    return case, rows, time.monotonic() - begin


def show(field, want, have):
    """The difference in one field; of text lists only the lines that differ, unless just the order does."""
    if isinstance(want, list) and isinstance(have, list) and all(isinstance(v, str) for v in want + have):
        gone, new = list(want), []
        for v in have:
            gone.remove(v) if v in gone else new.append(v)
        if gone or new:
            return "\n".join([f"       {field}:", *(f"         - {v}" for v in gone), *(f"         + {v}" for v in new)])
        want, have = " / ".join(want), " / ".join(have)
    return f"       {field}:\n         - {json.dumps(want)}\n         + {json.dumps(have)}"


def record(case, path, rows, took, args):
    """Write what was seen as the golden answers."""
    for r in rows if "configs" in case and not args.messages else []:
        r.pop("message", None)
    for r in rows:
        r.pop("differs", None)
        r.pop("expect", None)
    with open(golden_path(path), "w") as f:
        json.dump(rows, f, indent=1)
        f.write("\n")
    errs = [r for r in rows if "error" in r or r.get("result") == "server did not start"]
    print(f"recorded {case['name']:32} {len(rows):3} steps {took:5.1f} s" + (f"  ERRORS {len(errs)}" if errs else ""))
    for r in errs:
        print("    ", r["step"], "->", r.get("error") or r.get("message"))


def check(case, path, rows, took, args):
    """Compare with the golden answers, print what differs; returns how many steps passed, failed, were skipped."""
    with open(golden_path(path)) as f:
        golden = json.load(f)
    if "configs" in case:
        left = {c["name"] for c in case["configs"]}
        golden = [g for g in golden if g["step"] in left]
    count, lines = {"passed": 0, "failed": 0, "skipped": 0}, []
    for i, want in enumerate(golden):
        have = rows[i] if i < len(rows) else {}
        verdict, diffs = judge(want, have, case.get("defaults", ""))
        count[verdict] += 1
        if verdict == "failed" or (verdict == "skipped" and args.skipped):
            why = have.get("differs") or want.get("deviation")
            lines.append(f"     {want['step']}" + (f"   (skipped: {why})" if verdict == "skipped" else ""))
            lines += [show(*d) for d in diffs]
    start = rows[0] if rows and rows[0].get("result") == "server did not start" else None
    print(f"{'DIFF' if count['failed'] else 'ok  '} {case['name']:32} {len(golden):3} steps {count['failed']} differ {took:.1f} s")
    if start:
        print("     the server did not start:\n       " + start["message"].strip().replace("\n", "\n       "))
        lines = []
    print("\n".join(lines), end="\n" if lines else "", flush=True)
    return count


def main():
    """Run what the command line asks for; returns the exit status."""
    ap = argparse.ArgumentParser(prog="dnsoracle")
    ap.add_argument("action", choices=("record", "check", "list", "sort"))
    ap.add_argument("cases", nargs="*", help="case files or folders")
    ap.add_argument("--server", default="", help="command; {conf} and {port} are replaced")
    ap.add_argument("--testbed", default=os.environ.get("DNSORACLE_TESTBED", ""),
                    help="API server testbed program; cases with `kube` are left out without it")
    ap.add_argument("--ready", metavar="FOLDER", help="check what FOLDER/ready.txt names, of FOLDER/corpus; "
                    "of lists of Corefiles those that need only the plugins of FOLDER/plugins.txt")
    ap.add_argument("--jobs", type=int, default=3)
    ap.add_argument("--keep", action="store_true", help="keep the working directories")
    ap.add_argument("--skipped", action="store_true", help="show the differences of skipped steps, too")
    ap.add_argument("--messages", action="store_true", help="keep the error texts of rejected Corefiles")
    ap.add_argument("--json", help="write a summary of check here")
    args = ap.parse_args()
    # The server's current directory is another one.
    program, *rest = shlex.split(args.server) or [""]
    args.server = shlex.join([os.path.abspath(program) if "/" in program else program, *rest])
    args.testbed = args.testbed and os.path.abspath(args.testbed)
    plugins = None
    if args.action == "sort":
        lists.write(args.cases[0], [load(p) for p in find_cases([os.path.join(args.cases[0], "corpus")])])
        return 0
    paths = find_cases(args.cases)
    if args.ready:
        plugins = lists.read_plugins(os.path.join(args.ready, "plugins.txt"))
        names = lists.read_names(os.path.join(args.ready, "ready.txt"))
        paths += [os.path.join(args.ready, "corpus", n + ".yaml") for n in names]
    if args.action == "list":
        for p in paths:
            c = load(p)
            n = len(c.get("configs", c.get("steps", [])))
            print(f"{c['name']:34} {n:4} {','.join(sorted(lists.needs_of(c)))}")
        return 0

    total, summary = {"passed": 0, "failed": 0, "skipped": 0}, {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = {pool.submit(run_case, p, args, plugins): p for p in paths}
        for job in concurrent.futures.as_completed(jobs):
            path = jobs[job]
            try:
                case, rows, took = job.result()
            except Exception as e:                         # noqa: BLE001
                print(f"BROKEN {path}: {type(e).__name__}: {e}", flush=True)
                total["failed"] += 1
                continue
            if rows is None:
                print(f"left out {case['name']} (no --testbed)")
            elif args.action == "record":
                record(case, path, rows, took, args)
            else:
                count = check(case, path, rows, took, args)
                summary[case["name"]] = {**count, "seconds": round(took, 1)}
                for k, n in count.items():
                    total[k] += n
    if args.action == "check":
        print(", ".join(f"{n} {k}" for k, n in total.items()))
        if args.json:
            with open(args.json, "w") as f:
                json.dump(summary, f, indent=1)
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
