#!/usr/bin/env python3
"""Writes a container image as a docker-archive tar, without docker.

mkimage.py OUT.tar --tag NAME... --entrypoint JSON [--user U] [--env K=V...] SRC:DEST...

Each SRC file (or folder) lands at DEST in the only layer. Files belong to
root, times are zero and modes are 755 or 644, so the same input gives the
same image.
"""
import argparse, hashlib, io, json, os, platform, tarfile

p = argparse.ArgumentParser()
p.add_argument("out")
p.add_argument("files", nargs="+", metavar="SRC:DEST")
p.add_argument("--tag", action="append", required=True)
p.add_argument("--entrypoint", required=True, type=json.loads)
p.add_argument("--user", default="")
p.add_argument("--env", action="append", default=[])
a = p.parse_args()


def clean(info):
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o111 else 0o644
    return info


layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as tar:
    made = set()

    def folder(path):
        if path and path not in made:
            folder(os.path.dirname(path))
            made.add(path)
            info = clean(tarfile.TarInfo(path))
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            tar.addfile(info)

    folder("tmp")
    for spec in a.files:
        src, dest = spec.split(":")
        dest = dest.lstrip("/")
        folder(os.path.dirname(dest))
        tar.add(os.path.realpath(src), dest, filter=clean)
data = layer.getvalue()
digest = hashlib.sha256(data).hexdigest()
config = json.dumps({
    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
    "os": "linux",
    "created": "1970-01-01T00:00:00Z",
    "config": {
        "Entrypoint": a.entrypoint,
        "User": a.user,
        "WorkingDir": "/",
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"] + a.env,
    },
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
    "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "mkimage.py"}],
}).encode()
name = hashlib.sha256(config).hexdigest() + ".json"
manifest = json.dumps([{"Config": name, "RepoTags": a.tag, "Layers": [digest + "/layer.tar"]}]).encode()
with tarfile.open(a.out + ".part", "w") as tar:
    for path, content in ((digest + "/layer.tar", data), (name, config), ("manifest.json", manifest)):
        info = clean(tarfile.TarInfo(path))
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
os.replace(a.out + ".part", a.out)
