#!/usr/bin/python3
"""scripts/sbom.py FOLDER TARBALL OUT: writes to OUT what is in FOLDER, the unpacked TARBALL, as SPDX 2.1 (tag:value).

`reuse spdx` lists the files, with checksums and licenses; the packages of Debian whose libraries are beside the programs, or linked into
them, are added to that. Called by scripts/release; SOURCE_DATE_EPOCH is the date of the document.
"""

import datetime
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PARAGRAPH = "Files: {files}\nCopyright: {copyright}\nLicense: {license}\n"
PACKAGE = """
PackageName: {name}
SPDXID: SPDXRef-{id}
PackageVersion: {version}
PackageSupplier: {supplier}
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: false
{more}PackageLicenseConcluded: NOASSERTION
PackageLicenseDeclared: {license}
PackageCopyrightText: NOASSERTION
"""


def license_of(package):
    """The reference by which the document names what Debian's package says of its licenses."""
    return "LicenseRef-Debian-" + re.sub(r"[^A-Za-z0-9.-]", "-", package)


def bundled(folder):
    """(package, version, file within the folder) as scripts/release has written them."""
    lines = (folder / "share/doc/urnic/bundled").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split()) for line in lines]


def listing(folder, parts):
    """What reuse says of a copy of the folder that has licenses where reuse looks for them."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch) / folder.name
        shutil.copytree(folder, copy)
        (copy / "LICENSES").mkdir()
        (copy / ".reuse").mkdir()
        shutil.copy(folder / "share/doc/urnic/LICENSE", copy / "LICENSES/BSD-3-Clause.txt")
        files = {}
        for package, _, file in parts:
            shutil.copy(folder / "share/doc/urnic/licenses" / package, copy / f"LICENSES/{license_of(package)}.txt")
            files.setdefault(file, []).append(license_of(package))
        own = PARAGRAPH.format(files="*", copyright="2026 the urnic authors", license="BSD-3-Clause")
        others = [PARAGRAPH.format(files=file, copyright="as the license says",
                                   license=" and ".join((["BSD-3-Clause"] if "/bundled/" not in file else []) + sorted(set(licenses))))
                  for file, licenses in sorted(files.items())]
        header = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        (copy / ".reuse/dep5").write_text("\n".join([header, own, *others]), encoding="utf-8")
        made = subprocess.run(["reuse", "--no-multiprocessing", "--root", copy, "spdx"], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return made.stdout


def packages(folder, tarball, parts):
    version = folder.name.split("-")[1]
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    more = f"PackageFileName: {tarball.name}\nPackageChecksum: SHA256: {digest}\n"
    text = PACKAGE.format(name="urnic", id="Package-urnic", version=version, supplier="NOASSERTION", more=more, license="BSD-3-Clause")
    text += "Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package-urnic\n"
    for package, its_version in sorted({part[:2] for part in parts}):
        name = license_of(package).replace("LicenseRef", "Package")
        text += PACKAGE.format(name=package, id=name, version=its_version, supplier="Organization: Debian", more="", license=license_of(package))
        text += f"Relationship: SPDXRef-Package-urnic CONTAINS SPDXRef-{name}\n"
    return text


def main():
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} FOLDER TARBALL OUT")
    folder, tarball, out = (pathlib.Path(word) for word in sys.argv[1:])
    parts = bundled(folder)
    text = listing(folder, parts)
    listed = set(re.findall(r"(?m)^FileName: \./(.*)$", text))
    # reuse leaves out what it takes for texts of licenses.
    missing = [path for path in map(str, (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()))
               if path not in listed and not re.search(r"(^|/)(LICENSE|COPYING)[^/]*$", path)]
    if missing:
        sys.exit(f"reuse does not list {missing[0]} and {len(missing) - 1} others of {folder}")
    # The same document for the same release.
    date = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    name = hashlib.sha256(tarball.read_bytes()).hexdigest()
    text = re.sub(r"(?m)^(DocumentNamespace: .*spdx-v2\.1-).*$", rf"\g<1>{name}", text)
    text = re.sub(r"(?m)^Created: .*$", f"Created: {date:%Y-%m-%dT%H:%M:%SZ}", text)
    out.write_text(text + packages(folder, tarball, parts), encoding="utf-8")


if __name__ == "__main__":
    main()
