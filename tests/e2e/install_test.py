"""meson install: everything is where Debian expects it, and works from there and from any directory."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import harness


def options():
    """Meson's build options, by name."""
    out = subprocess.run(["meson", "introspect", "--buildoptions", str(harness.BUILD)], capture_output=True, text=True,
                         check=True).stdout
    return {option["name"]: option["value"] for option in json.loads(out)}


class Installed(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        done = subprocess.run(["meson", "install", "-C", str(harness.BUILD), "--no-rebuild", "--destdir", str(cls.dir)],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.options = options()
        cls.prefix = pathlib.Path(f"{cls.dir}{cls.options['prefix']}")

    def test_everything_is_in_its_place(self):
        libdir = self.prefix / self.options["libdir"]
        for path in (self.prefix / self.options["bindir"] / "urnic", self.prefix / self.options["sbindir"] / "urnicd",
                     libdir / "libibverbs/liburnic-rdmav34.so", libdir / "urnic/liburnic-discovery.so", libdir / "urnic/valgrind.supp",
                     self.prefix / self.options["libexecdir"] / "urnic/urnic-decode",
                     self.prefix / self.options["libexecdir"] / "urnic/urnic-experiment",
                     self.prefix / self.options["libexecdir"] / "urnic/draw.py",
                     self.prefix / self.options["datadir"] / "doc/urnic/experiments/incast-2.toml",
                     self.prefix / "lib/sysusers.d/urnic.conf",
                     libdir / "wireshark/extcap/urnic-extcap",
                     self.prefix / self.options["datadir"] / "urnic/wireshark/urnic.lua",
                     self.prefix / self.options["datadir"] / "doc/urnic/examples/grafana-urnic.json",
                     self.prefix / self.options["mandir"] / "man1/urnic.1",
                     self.prefix / self.options["datadir"] / "bash-completion/completions/urnic.bash",
                     self.prefix / self.options["datadir"] / "zsh/site-functions/_urnic",
                     self.prefix / self.options["mandir"] / "man8/urnicd.8",
                     self.prefix / self.options["mandir"] / "man3/rpcrdma.3",
                     self.prefix / self.options["mandir"] / "man3/clnt_rdma_create.3",
                     libdir / "liburnic-rpcrdma.so.0", libdir / "pkgconfig/urnic-rpcrdma.pc",
                     libdir / "liburnic-rpcrdma-onc.so.0", libdir / "pkgconfig/urnic-rpcrdma-onc.pc",
                     self.prefix / self.options["includedir"] / "urnic/rpcrdma.h",
                     self.prefix / self.options["includedir"] / "urnic/rpcrdma_onc.h",
                     self.prefix / self.options["datadir"] / "doc/urnic/examples/urnicd.toml"):
            self.assertTrue(path.is_file(), path)
        service = (self.prefix / "lib/systemd/system/urnicd.service").read_text(encoding="utf-8")
        daemon = f"{self.options['prefix']}/{self.options['sbindir']}/urnicd"
        self.assertIn(f"\nExecStart={daemon} --config /etc/urnic/urnicd.toml\n", service)
        profile = (self.prefix / self.options["sysconfdir"] / "apparmor.d/urnicd").read_text(encoding="utf-8")
        self.assertIn(f"\nprofile urnicd {daemon} flags=", profile)
        driver = list(self.dir.rglob("libibverbs.d/urnic.driver"))
        self.assertEqual(len(driver), 1)
        name = "urnic"
        if self.options["prefix"] != "/usr":
            name = f"{self.options['prefix']}/{self.options['libdir']}/libibverbs/liburnic"
        self.assertEqual(driver[0].read_text(encoding="ascii"), f"driver {name}\n")

    def programs(self):
        """All programs and libraries."""
        found = [path for path in self.prefix.rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
        self.assertGreater(len(found), 10)
        return found

    def test_a_mistake_in_it_is_hard_to_exploit(self):
        for product in self.programs():
            headers = self.run_ok(["readelf", "-ldW", product]).out
            self.assertIn("GNU_RELRO", headers)
            self.assertRegex(headers, r"BIND_NOW|Flags: NOW", f"{product}: what it calls could be exchanged")
            self.assertRegex(headers, r"GNU_STACK .* RW +0x", f"{product}: its stack is executable")
        if self.options["b_sanitize"] == "none":
            libdir = self.prefix / self.options["libdir"]
            for product in (self.prefix / self.options["bindir"] / "urnic", self.prefix / self.options["sbindir"] / "urnicd",
                            libdir / "libibverbs/liburnic-rdmav34.so", self.prefix / self.options["bindir"] / "urnic-conform-agent"):
                symbols = self.run_ok(["readelf", "--dyn-syms", "-W", product]).out
                self.assertIn("__stack_chk_fail", symbols, product)
                self.assertRegex(symbols, r"__\w+_chk@", product)

    def test_no_path_of_this_machine_is_in_it(self):
        for product in self.programs():
            self.assertNotIn(str(harness.SOURCE).encode(), product.read_bytes(), product)

    def test_the_service_has_few_rights(self):
        unit = self.prefix / "lib/systemd/system/urnicd.service"
        result = harness.run(["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=24", unit])
        self.assertEqual(result.returncode, 0, result)

    def test_the_installed_urnic_runs_from_anywhere(self):
        urnic = self.prefix / self.options["bindir"] / "urnic"
        result = self.run_ok([urnic, "run", "--standalone", "--", "sh", "-c", "echo $LD_PRELOAD; ibv_devinfo -d urnic1"],
                             cwd="/")
        self.assertIn("PORT_ACTIVE", result.out)
        self.assertTrue(result.out.startswith(str(self.prefix)), "the build tree's library was used")
        # Through a symbolic link too.
        link = self.dir / "link"
        os.symlink(urnic, link)
        self.assertIn("urnic0", self.run_ok([link, "run", "--standalone", "--", "ibv_devices"], cwd="/").out)

    def test_the_installed_decoder_is_found(self):
        capture = harness.SOURCE / "tests/golden/rping.pcap"
        urnic = self.prefix / self.options["bindir"] / "urnic"
        self.assertIn("CM REQ", self.run_ok([urnic, "decode", capture], cwd="/").out)

    def test_the_installed_program_for_experiments_is_found(self):
        urnic = self.prefix / self.options["bindir"] / "urnic"
        scenario = self.prefix / self.options["datadir"] / "doc/urnic/experiments/incast-2.toml"
        self.run_ok([urnic, "experiment", scenario, "--out", self.dir / "results", "--set", "duration_us=1000", "--set",
                     "warm_up_us=0"], cwd="/")
        self.assertTrue((self.dir / "results/incast-2.svg").is_file())

    def flags(self, package):
        """What pkg-config says to a program that is built with the installed library."""
        libdir = self.prefix / self.options["libdir"]
        own = dict(os.environ, PKG_CONFIG_PATH=str(libdir / "pkgconfig"), PKG_CONFIG_SYSROOT_DIR=str(self.dir))
        # The sysroot is of our packages alone.
        return [*self.run_ok(["pkg-config", "--cflags", "--libs", package], env=own).out.split(),
                *self.run_ok(["pkg-config", "--cflags", "libtirpc"]).out.split()]

    def test_programs_are_built_with_the_installed_libraries(self):
        if self.options["b_sanitize"] != "none":
            return  # a program without the sanitizer cannot load them
        example = self.prefix / self.options["datadir"] / "doc/urnic/examples/rpcrdma_upper.c"
        upper = self.dir / "rpcrdma_upper"
        self.run_ok(["cc", "-Wall", "-Wextra", "-Werror", example, "-o", upper, *self.flags("urnic-rpcrdma")])
        libdir = self.prefix / self.options["libdir"]
        script = (f"export LD_LIBRARY_PATH={libdir}; {upper} serve 198.18.0.1 20050 & until {upper} call 198.18.0.1 20050 hello; "
                  "do sleep 0.1; done; kill $!")
        urnic = self.prefix / self.options["bindir"] / "urnic"
        result = self.run_ok([urnic, "run", "--standalone", "--", "sh", "-c", script], cwd="/")
        self.assertIn("HELLO\n", result.out)

    def test_stubs_are_built_with_the_installed_library(self):
        if self.options["b_sanitize"] != "none":
            return
        source = self.dir / "nobody.c"
        source.write_text("""#include <stdio.h>
#include <urnic/rpcrdma_onc.h>
int main(void) {
    CLIENT *client = clnt_rdma_create("198.18.0.1", "1", 0x20000001, 1, NULL);
    puts(client == NULL ? clnt_spcreateerror("nobody") : "somebody");
    return 0;
}
""", encoding="ascii")
        program = self.dir / "nobody"
        flags = self.flags("urnic-rpcrdma-onc")
        self.run_ok(["cc", "-Wall", "-Werror", source, "-o", program, *flags])
        self.run_ok(["c++", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", source, *flags])
        libdir = self.prefix / self.options["libdir"]
        urnic = self.prefix / self.options["bindir"] / "urnic"
        result = self.run_ok([urnic, "run", "--standalone", "--", "env", f"LD_LIBRARY_PATH={libdir}", program], cwd="/")
        self.assertIn("nobody: RPC: ", result.out)

    def test_the_example_configuration_is_valid(self):
        example = self.prefix / self.options["datadir"] / "doc/urnic/examples/urnicd.toml"
        text = example.read_text(encoding="utf-8").replace('socket_group = "rdma"', "")
        copy = self.dir / "urnicd.toml"
        copy.write_text(text, encoding="utf-8")
        self.run_ok([self.prefix / self.options["sbindir"] / "urnicd", "--config", copy, "--check"])


if __name__ == "__main__":
    harness.main()
