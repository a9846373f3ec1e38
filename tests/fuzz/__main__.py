"""Coverage-guided fuzzing of the parsers, with atheris (the extra ``fuzz``; Python 3.11).

    python -m tests.fuzz                     every target, a minute each
    python -m tests.fuzz --seconds 3600 url  one target, an hour
    python -m tests.fuzz --keep              and add to tests/fuzz/corpus what reaches new code

An input that breaks a property ends the run with status 1; it is printed, and written into the current folder. The
corpus of a target is one file with an input on each line, in Base64.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import traceback

CORPUS = pathlib.Path(__file__).parent / "corpus"


def read_corpus(name):
    """Return the kept inputs of a target."""
    file = CORPUS / f"{name}.txt"
    if not file.exists():
        return []
    return [base64.b64decode(line) for line in file.read_text(encoding="ascii").splitlines()]


def write_corpus(name, inputs):
    CORPUS.mkdir(exist_ok=True)
    lines = [base64.b64encode(one).decode("ascii") for one in sorted(set(inputs), key=lambda one: (len(one), one))]
    (CORPUS / f"{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="ascii", newline="\n")


def unpack(inputs, folder):
    folder.mkdir()
    for one in inputs:
        (folder / hashlib.sha256(one).hexdigest()[:24]).write_bytes(one)


def load_targets():
    """Return the targets, of which libFuzzer sees the code that they run. This takes many seconds."""
    import atheris

    with atheris.instrument_imports(include=["mcplite"]):
        from tests.fuzz.targets import TARGETS
    return TARGETS


def run_target(target, program, arguments):
    """Hand this process to libFuzzer, which ends it.

    :param program: what libFuzzer starts with other arguments, in order to merge inputs.
    """
    import atheris

    atheris.Setup([program, *arguments], target)
    atheris.Fuzz()


def run_in_fork(target, program, arguments, output):
    """Run a target in a fork of this process, which has loaded the targets; return its status.

    :param output: a path; gets what the fork writes.
    """
    child = os.fork()
    if not child:
        try:
            file = os.open(output, os.O_WRONLY | os.O_CREAT)
            os.dup2(file, 1)
            os.dup2(file, 2)
            run_target(target, program, arguments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fuzz(name, target, seconds, seed, keep):
    """Fuzz one target in a process of its own, and print a line; return whether its property held."""
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        unpack(read_corpus(name), work / "kept")
        (work / "new").mkdir()
        program = work / "run"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.fuzz --inside {name} "$0" "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        status = run_in_fork(
            target, str(program),
            [str(work / "new"), str(work / "kept"), f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=1024",
             "-timeout=60", "-rss_limit_mb=2048", f"-artifact_prefix={pathlib.Path.cwd()}/{name}-",
             "-print_final_stats=1"], work / "output")
        said = (work / "output").read_text(errors="replace")
        runs = re.search(r"stat::number_of_executed_units:\s+(\d+)", said)
        found = len(list((work / "new").iterdir()))
        count = int(runs.group(1)) if runs else 0
        print(f"{name:16} {count:10} inputs, {found} with new coverage, status {status}", flush=True)
        if status:
            print(said[-8000:], file=sys.stderr)
            return False
        if keep and found:
            (work / "merged").mkdir()
            subprocess.run([str(program), "-merge=1", str(work / "merged"), str(work / "kept"), str(work / "new")],
                           capture_output=True, check=True)
            write_corpus(name, [file.read_bytes() for file in (work / "merged").iterdir()])
    return True


def main():
    if sys.argv[1:2] == ["--inside"]:
        run_target(load_targets()[sys.argv[2]], sys.argv[3], sys.argv[4:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="names of targets; without any, all of them")
    parser.add_argument("--seconds", type=int, default=60, help="how long each target is fuzzed (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="the same inputs in each run; 0 for others each time (default)")
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new code to the corpus")
    given = parser.parse_args()
    targets = load_targets()
    unknown = sorted(set(given.targets) - set(targets))
    if unknown:
        parser.error(f"there is no target {', '.join(unknown)}; there are {', '.join(targets)}")
    held = [fuzz(name, targets[name], given.seconds, given.seed, given.keep) for name in given.targets or targets]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
