"""The policies of docs/policies, given to users of the S3 server's own access control: a whole diamond under them."""

import json
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.conftest import Command, tree
from tests.servers import BUCKET

POLICIES = Path(__file__).parents[2] / "docs" / "policies"
ROLES = ("reader", "user", "worker", "housekeeping")


@pytest.fixture(scope="module")
def store(s3):
    return f"{s3.new_place()}/store"


@pytest.fixture(scope="module")
def credentials(s3, store):
    """The environment of each role."""
    iam = boto3.client("iam", endpoint_url=s3.endpoint)
    prefix = store.removeprefix(f"s3://{BUCKET}/")
    found = {}
    for role in ROLES:
        policy = (POLICIES / f"{role}.json").read_text().replace("datasets", BUCKET)
        policy = policy.replace("/store/", f"/{prefix}/").replace('"store/*"', f'"{prefix}/*"')
        iam.create_user(UserName=role)
        iam.put_user_policy(UserName=role, PolicyName="least", PolicyDocument=policy)
        key = iam.create_access_key(UserName=role)["AccessKey"]
        found[role] = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    yield found
    for role in ROLES:
        iam.delete_access_key(UserName=role, AccessKeyId=found[role]["AWS_ACCESS_KEY_ID"])
        iam.delete_user_policy(UserName=role, PolicyName="least")
        iam.delete_user(UserName=role)


@pytest.fixture(scope="module")
def roles(credentials, store, tmp_path_factory):
    """The command as each role would use it; the worker's has a profile of housekeeping's."""
    home = tmp_path_factory.mktemp("home")
    profiles = home.parent / "credentials"
    own = credentials["housekeeping"]
    profiles.write_text("[housekeeping]\n" + "".join(f"{name.lower()} = {value}\n" for name, value in own.items()))
    shared = {"DATAMON_STORE": store}
    more = {"DATAMON_HOUSEKEEPING_PROFILE": "housekeeping", "AWS_SHARED_CREDENTIALS_FILE": str(profiles)}
    commands = {role: Command(home, shared | credentials[role]) for role in ROLES}
    commands["worker"].more |= more
    commands["worker"]("up", "--detach")
    yield commands
    commands["worker"]("down")


def test_a_whole_life_under_them(roles, files, tmp_path):
    user, reader = roles["user"], roles["reader"]
    repo = user("repo", "create", "--repo", "r")
    where = ("--repo", repo, "--diamond", user("diamond", "initialize", "--repo", repo))
    names = tmp_path / "names"
    names.write_text("a\n")
    one = files("one", {"a": "1", "b": "2"})
    user("diamond", "add", *where, "--path", one, "--split", "s", "--create", "--files", str(names))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "pipe").symlink_to("/dev/null")
    user.run("diamond", "add", *where, "--path", str(tmp_path / "two"), "--split", "t", "--create", exit_code=1)
    (tmp_path / "two" / "pipe").unlink()
    (tmp_path / "two" / "a").write_text("later")
    user("diamond", "add", *where, "--path", str(tmp_path / "two"), "--split", "t")
    bundle = user("diamond", "commit", *where, "--message", "m", "--label", "latest")
    user("label", "set", "--repo", repo, "--label", "mine", "--bundle", bundle)
    reader("bundle", "download", "--repo", repo, "--label", "mine", "--destination", str(tmp_path / "out"))
    assert tree(tmp_path / "out") == {"a": "later", ".conflicts/s/a": "1"}
    told = user.json("housekeeping", "run", "--older-than", "0s")
    assert (told["removed"], told["failures"]) == (1, {})
    assert reader.json("diamond", "list", "--repo", repo) == []
    assert reader("bundle", "list", "files", "--repo", repo, "--bundle", bundle)


def test_what_a_role_may_not_is_refused_in_a_sentence(roles):
    said = roles["reader"].refused("repo", "create", "--repo", "mine", exit_code=6)
    assert "Access Denied" in said


@pytest.mark.parametrize("role", ROLES)
def test_nobody_may_more_than_they_need(s3, credentials, store, role):
    prefix = store.removeprefix(f"s3://{BUCKET}/")
    own = credentials[role]
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        aws_access_key_id=own["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=own["AWS_SECRET_ACCESS_KEY"],
    )
    owner = s3.client()
    parts = {
        "repo": "metadata/repos/x/repo.yaml",
        "bundle": "metadata/bundles/x/y/bundle.yaml",
        "list": "metadata/lists/00/0",
        "label": "vmetadata/labels/x/y/label.yaml",
        "diamond": "vmetadata/diamonds/x/y/diamond.yaml",
        "names": "vmetadata/diamonds/x/y/splits/z/names-0123456789abcdef.txt",
        "pack": "blob/packs/00/0",
    }
    keys = {name: f"{prefix}/{key}" for name, key in parts.items()} | {"elsewhere": "elsewhere/x"}

    def may(call, key, **more):
        owner.put_object(Bucket=BUCKET, Key=key, Body=b"x")
        try:
            call(Bucket=BUCKET, Key=key, **more)
        except ClientError as error:
            refused = error.response["Error"]["Code"]
        else:
            return True
        assert refused == "AccessDenied"
        return False

    reads = {name for name, key in keys.items() if may(client.get_object, key)}
    writes = {name for name, key in keys.items() if may(client.put_object, key, Body=b"y")}
    deletes = {name for name, key in keys.items() if may(client.delete_object, key)}
    for key in keys.values():
        owner.delete_object(Bucket=BUCKET, Key=key)
    assert reads == set(parts)
    assert (
        writes
        == {
            "reader": set(),
            "user": {"repo", "label", "names"},
            "worker": {"bundle", "list", "label", "diamond", "names", "pack"},
            "housekeeping": set(),
        }[role]
    )
    assert deletes == ({"diamond", "names"} if role == "housekeeping" else set())
    with pytest.raises(ClientError, match="AccessDenied"):
        client.list_objects_v2(Bucket=BUCKET, Prefix="")
    with pytest.raises(ClientError, match="AccessDenied"):
        client.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": []}))
