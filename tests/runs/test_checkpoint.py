"""A checkpoint comes back bit for bit or not at all, and nothing in a file is ever executed."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save as save_safetensors
from torch import Tensor

from surefoot.contract.errors import SurefootError
from surefoot.runs.checkpoint import FORMAT, section
from surefoot.runs.checkpoint import load_checkpoint as load
from surefoot.runs.checkpoint import save_checkpoint as save


def example() -> dict[str, Tensor]:
    return {
        "policy.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 7,
        "env.time": torch.tensor([0.1, float("nan"), -0.0], dtype=torch.float64),
        "env.episode": torch.tensor([2**62, -1]),
        "env.done": torch.tensor([True, False]),
        "step": torch.tensor(3),
        "none": torch.zeros(0, 4),
        "half": torch.tensor([1.5], dtype=torch.bfloat16),
    }


def same_bits(a: Tensor, b: Tensor) -> bool:
    raw = [x.detach().contiguous().reshape(-1).view(torch.uint8) for x in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(raw[0], raw[1])


def test_tensors_and_meta_come_back_bit_for_bit(tmp_path: Path) -> None:
    meta = {"update": 12, "name": "é\n", "rates": [0.1, 1e-300], "nested": {"none": None, "ok": True}}
    digest = save(tmp_path / "deep" / "a.safetensors", example(), meta)
    back = load(tmp_path / "deep" / "a.safetensors")
    assert back.meta == meta
    assert back.digest == digest
    assert back.tensors.keys() == example().keys()
    assert all(same_bits(back.tensors[name], tensor) for name, tensor in example().items())


def test_checkpoint_may_be_empty(tmp_path: Path) -> None:
    save(tmp_path / "a", {}, {})
    assert load(tmp_path / "a").tensors == {}


def test_shared_strided_and_trainable_tensors_are_saved_as_seen(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "base": base,
        "again": base,
        "columns": base[:, 1:3],
        "turned": base.T,
        "spread": torch.ones(1).expand(5),
        "weight": torch.nn.Parameter(base),
    }
    save(tmp_path / "a", tensors, {})
    back = load(tmp_path / "a").tensors
    assert all(same_bits(back[name], tensor) for name, tensor in tensors.items())
    back["base"] += 1  # loaded tensors are writable and share nothing
    assert torch.equal(back["again"], base)


def test_view_does_not_drag_its_storage_along(tmp_path: Path) -> None:
    save(tmp_path / "a", {"row": torch.zeros(1000, 1000)[0]}, {})
    assert (tmp_path / "a").stat().st_size < 10_000


def test_digest_depends_on_every_part_and_not_on_order(tmp_path: Path) -> None:
    base = {"a": torch.zeros(2, 2), "b": torch.ones(1)}
    digests = [
        save(tmp_path / "x", tensors, meta)
        for tensors, meta in (
            (base, {"u": 1}),
            (base, {"u": 2}),
            ({"c": base["a"], "b": base["b"]}, {"u": 1}),
            ({**base, "a": torch.zeros(4)}, {"u": 1}),
            ({**base, "a": torch.zeros(2, 2, dtype=torch.int32)}, {"u": 1}),
            ({**base, "b": torch.full((1,), 2.0)}, {"u": 1}),
        )
    ]
    assert len(set(digests)) == len(digests)
    assert save(tmp_path / "x", dict(reversed(base.items())), {"u": 1}) == digests[0]


@pytest.mark.parametrize("meta", [{"x": float("nan")}, {"x": 2**60}, {"x": {1, 2}}, {"x": torch.zeros(1)}])
def test_meta_that_would_not_come_back_exactly_is_not_saved(tmp_path: Path, meta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exact JSON"):
        save(tmp_path / "a", {}, meta)
    assert not (tmp_path / "a").exists()


def test_reserved_or_sparse_tensors_are_not_saved(tmp_path: Path) -> None:
    for tensors in ({"__metadata__": torch.zeros(1)}, {"": torch.zeros(1)}, {"s": torch.eye(2).to_sparse()}):
        with pytest.raises(ValueError):
            save(tmp_path / "a", tensors, {})


# --- what is refused


class Payload:
    """Unpickling this creates the file it names."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ""])
@pytest.mark.parametrize("form", ["pickle0", "pickle2", "pickle5", "torch", "torch-legacy"])
def test_malicious_pickle_is_refused_and_never_runs(tmp_path: Path, form: str, suffix: str) -> None:
    marker, path = tmp_path / "marker", tmp_path / f"policy{suffix}"
    payload = {"weight": Payload(marker)}
    if form.startswith("pickle"):
        path.write_bytes(pickle.dumps(payload, protocol=int(form[-1])))
        pickle.loads(path.read_bytes())
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form == "torch")
        torch.load(io.BytesIO(path.read_bytes()), weights_only=False)
    assert marker.exists(), "the payload must be live, or the test proves nothing"
    marker.unlink()
    with pytest.raises(SurefootError) as caught:
        load(path)
    assert not marker.exists()
    if (
        form != "pickle0" or suffix == ".pt"
    ):  # protocol 0 is plain text: without a name it is merely not a checkpoint
        assert "a pickle can run code" in str(caught.value)


def test_header_that_starts_like_a_pickle_is_still_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for size in range(0, 640, 8):  # headers are padded to 8 bytes
        save(path, {}, {"pad": "x" * size})
        if path.read_bytes().startswith(b"\x80\x02"):
            break
    assert int.from_bytes(path.read_bytes()[:8], "little") == 640
    assert load(path).meta == {"pad": "x" * size}


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save(path, example(), {"update": 3, "note": "é"})
    whole = path.read_bytes()
    dice = random.Random(0)
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(SurefootError):
            load(path)


def test_any_truncation_and_any_addition_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save(path, example(), {})
    whole = path.read_bytes()
    for size in (*range(0, len(whole), 7), len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(SurefootError, match=r"damaged|is not a Surefoot checkpoint"):
            load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(SurefootError, match="damaged"):
        load(path)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_are_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, framed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(struct.pack("<Q", len(data)) + b"{" + data if framed else data)
    with pytest.raises(SurefootError, match=r"damaged|is not a Surefoot checkpoint|pickle"):
        load(path)


def test_other_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(SurefootError, match="does not exist"):
        load(path)
    with pytest.raises(SurefootError, match="Cannot read"):
        load(tmp_path)
    for metadata in (None, {"format": "pt"}):
        path.write_bytes(save_safetensors({"w": torch.zeros(1)}, metadata=metadata))
        with pytest.raises(
            SurefootError, match="is a safetensors file but not a Surefoot checkpoint; choose"
        ):
            load(path)
    for version, complaint in (("2", "reads up to 1; upgrade"), ("0", "whole number"), ("x", "whole number")):
        path.write_bytes(save_safetensors({}, metadata={"format": FORMAT, "schema_version": version}))
        with pytest.raises(SurefootError, match=complaint):
            load(path)
    path.write_bytes(save_safetensors({}, metadata={"format": FORMAT}))
    with pytest.raises(SurefootError, match="'schema_version' is missing"):
        load(path)
    path.write_bytes(save_safetensors({}, metadata={"format": FORMAT, "schema_version": "1"}))
    with pytest.raises(SurefootError, match="damaged"):
        load(path)


def test_weights_exchanged_under_the_old_digest_are_noticed(tmp_path: Path) -> None:
    """A well-formed file is not enough: the digest must be that of its content."""
    path = tmp_path / "a"
    save(path, {"w": torch.zeros(3)}, {})
    data = path.read_bytes()
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    path.write_bytes(save_safetensors({"w": torch.zeros(3)}, metadata=metadata))
    load(path)
    path.write_bytes(save_safetensors({"w": torch.ones(3)}, metadata=metadata))
    with pytest.raises(SurefootError, match="damaged"):
        load(path)


def test_missing_device_is_a_sentence(tmp_path: Path) -> None:
    save(tmp_path / "a", example(), {})
    device = "cuda:99" if torch.cuda.is_available() else "cuda"
    for name in (device, "nonsense"):
        with pytest.raises(SurefootError, match=f"on device '{name}'.*load it on 'cpu'"):
            load(tmp_path / "a", device=name)


# --- names


def test_a_section_is_what_stands_under_its_name() -> None:
    tensor = torch.zeros(1)
    everything = {"env.engine.qpos": tensor, "policy.actor.0.weight": tensor, "envelope": tensor}
    assert section("policy", everything) == {"actor.0.weight": tensor}
    assert list(section("env", everything)) == ["engine.qpos"]
    assert section("absent", everything) == {}
