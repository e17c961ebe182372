"""What Linux does in a mount of our NFS server: shell commands in the guest, each with what it has to say."""

import dataclasses
import re

import nfs_guest

HERE = nfs_guest.MOUNTPOINT


class Failed(Exception):
    """The mount does not do what a file system does; the text says how."""


@dataclasses.dataclass(frozen=True)
class Amount:
    """How much a run does."""

    data_mb: int
    fio_mb: int
    files: int


def must(is_so, what):
    if not is_so:
        raise Failed(what)


def sums(host, amount, ours_reads):
    """A file of random octets: written, read past the client's cache; read by `nfs_client`, over version 2.

    `ours_reads`: reads "data" as our own client does, and returns its sum."""
    said = host.run(f"""set -e
        dd if=/dev/urandom of=/tmp/data bs=1M count={amount.data_mb} 2>/dev/null
        cp /tmp/data {HERE}/data
        sync
        echo 3 >/proc/sys/vm/drop_caches
        cmp /tmp/data {HERE}/data
        sha256sum </tmp/data
        rm /tmp/data""", 600)
    there = ours_reads()
    must(said.split()[0] == there, f"the guest wrote {said.split()[0]}, our client reads {there}")
    host.run(f"rm {HERE}/data")
    return f"{amount.data_mb} MB, SHA-256 the same on both sides"


def fio(host, amount, ours_reads):
    """fio: random blocks of 4 to 256 KB past the page cache, each verified by its checksum."""
    del ours_reads
    said = host.run(f"""cd {HERE} && fio --name=verified --numjobs=2 --rw=randrw --bsrange=4k-256k --blockalign=4k \
        --size={amount.fio_mb}m --verify=crc32c --do_verify=1 --verify_state_save=0 --verify_fatal=1 --direct=1 \
        --ioengine=psync --end_fsync=1 --group_reporting && rm verified.*""", 600)
    errors = re.findall(r"err= *(\d+)", said)
    must(errors and set(errors) == {"0"}, said)
    return f"2 jobs of {amount.fio_mb} MB, randrw, 4 to 256 KB, verified"


def build(host, amount, ours_reads):
    """`make -j4` of a C program of 41 sources; it runs from the mount."""
    del amount, ours_reads
    said = host.run(f"""set -e
        mkdir {HERE}/build && cd {HERE}/build
        for i in $(seq 40); do echo "int f$i(int x) {{ return (x * $i + 1) % 65521; }}" >f$i.c; done
        {{ echo 'int printf(const char*, ...);'
          for i in $(seq 40); do echo "int f$i(int);"; done
          echo 'int main(void) {{ int s = 0;'
          for i in $(seq 40); do echo "s = f$i(s);"; done
          echo 'printf("%d\\n", s); return 0; }}'; }} >main.c
        {{ printf 'program: main.o'
          for i in $(seq 40); do printf " f$i.o"; done
          printf '\\n\\ttcc -o $@ $^\\n%%.o: %%.c\\n\\ttcc -c -o $@ $<\\n'; }} >Makefile
        make -s -j4 2>/dev/null
        ./program
        cd / && rm -r {HERE}/build""", 300)
    wanted = 0
    for factor in range(1, 41):
        wanted = (wanted * factor + 1) % 65521
    must(said.split() == [str(wanted)], f"the program says {said}, not {wanted}")
    return "make -j4 with tcc, 41 sources, and the program"


def clone(host, amount, ours_reads):
    """`git`: a repository made in the mount, cloned in it (hard links) and out of it, compared."""
    del amount, ours_reads
    said = host.run(f"""set -e
        cd {HERE}
        git init -q repository 2>/dev/null
        cd repository
        for i in $(seq 30); do mkdir -p folder$((i % 7)); head -c 5000 /dev/urandom | base64 >folder$((i % 7))/file$i; done
        git add . && git commit -qm first
        cd .. && git clone -q repository copy 2>/dev/null
        git clone -q --no-local repository /tmp/copy 2>/dev/null
        for at in {HERE}/repository {HERE}/copy /tmp/copy; do
            git -C $at fsck --full >/dev/null
            (cd $at && find folder* -type f | sort | xargs sha256sum | sha256sum)
        done
        rm -r repository copy /tmp/copy""", 300)
    must(len(set(said.split("\n")[:3])) == 1 and len(said.split()) == 6, said)
    return "init, commit, clone by hard links and by packs, fsck, sums"


def names(host, amount, ours_reads):
    """A shell's calls on names, links, sizes, modes and times, and what is refused."""
    del amount, ours_reads
    said = host.run(f"""set -e
        cd {HERE}
        mkdir -p a/b/c && echo one >a/file && ln a/file a/other && ln -s ../file a/b/link
        cat a/b/link; [ "$(readlink a/b/link)" = ../file ]
        [ $(stat -c %h a/file) = 2 ]
        mv a/file a/b/c/moved && cat a/b/c/moved && mv a/b d && cat d/c/moved
        echo two >>a/other && [ $(stat -c %s d/c/moved) = 8 ]
        truncate -s 3 a/other && cat d/c/moved && echo
        chmod 0421 a/other && [ $(stat -c %a d/c/moved) = 421 ]
        touch -d '2001-02-03 04:05:06' a/other && [ $(stat -c %Y d/c/moved) = $(date -d '2001-02-03 04:05:06' +%s) ]
        long=$(printf '%0255d' 0) && touch $long && ls | grep -q $long && rm $long
        ! touch ${{long}}0 2>/dev/null
        ! mkfifo pipe 2>/dev/null
        ! rmdir a 2>/dev/null
        ! mv a a/below 2>/dev/null
        rm a/other d/c/moved d/link && rmdir d/c d a && [ -z "$(ls -A)" ]""")
    must(said.split() == ["one"] * 3 + ["one"], said)
    return "hard and symbolic links, moves, truncation, modes, times, long names, what is refused"


def listing(host, amount, ours_reads):
    """Many files made, listed past the cache (READDIRPLUS), removed."""
    del ours_reads
    said = host.run(f"""set -e
        mkdir {HERE}/many && cd {HERE}/many
        for i in $(seq {amount.files}); do : >"file number $i"; done
        echo 3 >/proc/sys/vm/drop_caches
        ls -l | tail -n +2 | wc -l
        ls | sort -u | wc -l
        cd .. && rm -r many && ls -A | wc -l""", 600)
    must(said.split() == [str(amount.files)] * 2 + ["0"], said)
    return f"{amount.files} files made, listed, removed"


TESTS = (("names", names), ("sums", sums), ("fio", fio), ("build", build), ("clone", clone), ("listing", listing))
