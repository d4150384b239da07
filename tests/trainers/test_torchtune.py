"""torchtune's recipe of one device, by the file that `tune run` starts: as with torch's class, and resumed with its bits."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("torchtune", exc_type=ImportError, reason="torchtune with torchao 0.10 is not installed (tools/trainers.sh)")

from omegaconf import OmegaConf  # noqa: E402


def recipe():
    """The class of full_finetune_single_device.py, which is no module of a package."""
    folder = Path(importlib.util.find_spec("recipes").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("recipe", folder / "full_finetune_single_device.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FullFinetuneRecipeSingleDevice


class Tokenizer:
    pad_id = 0


class Texts(torch.utils.data.Dataset):
    """Numbers that follow one another, some of them twice as fast."""

    def __init__(self, tokenizer):
        self.rows = [[(start + (1 + start % 2) * place) % 40 + 1 for place in range(12)] for start in range(32)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"tokens": self.rows[index], "labels": self.rows[index]}


MODEL = dict(_component_="torchtune.models.llama3.llama3", vocab_size=48, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=64,
             max_seq_len=16)


def run(folder, optimizer, epochs, resumed=False, **words):
    """The weights after a fit, which leaves a checkpoint after each epoch but the last."""
    here = folder / "fit"
    checkpointer = dict(_component_="torchtune.training.FullModelTorchTuneCheckpointer", checkpoint_dir=str(folder / "start"),
                        checkpoint_files=["weights.pt"], output_dir=str(here), model_type="LLAMA3")
    if resumed:
        checkpointer |= dict(checkpoint_files=["epoch_0/model-00001-of-00001.bin"])
    of = sys.modules[__name__].__name__
    config = dict(device="cpu", dtype="fp32", output_dir=str(here), seed=0, epochs=epochs, batch_size=4, shuffle=True,
                  resume_from_checkpoint=resumed, gradient_accumulation_steps=2, optimizer_in_bwd=False, clip_grad_norm=0.5,
                  max_steps_per_epoch=None, compile=False, model=MODEL, checkpointer=checkpointer,
                  tokenizer={"_component_": f"{of}.Tokenizer"}, dataset={"_component_": f"{of}.Texts"},
                  loss={"_component_": "torch.nn.CrossEntropyLoss"}, optimizer=optimizer,
                  lr_scheduler={"_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
                                "num_warmup_steps": 2},
                  metric_logger={"_component_": "torchtune.training.metric_logging.DiskLogger", "log_dir": str(here / "log")})
    made = recipe()(OmegaConf.create({**config, **words}))
    made.setup(OmegaConf.create({**config, **words}))
    made.train()
    return [param.detach().clone() for param in made._model.parameters()]


@pytest.fixture
def folder(tmp_path):
    from torchtune import config
    torch.manual_seed(0)
    (tmp_path / "start").mkdir()
    torch.save(config.instantiate(OmegaConf.create(MODEL)).state_dict(), tmp_path / "start" / "weights.pt")
    return tmp_path


OURS = dict(_component_="altgrad.optim.AdamW", lr=3e-3, weight_decay=0.1)


def test_a_fit_is_torchs(folder):
    ours, theirs = [run(folder, {**OURS, "_component_": f"{of}.AdamW"}, 2) for of in ("altgrad.optim", "torch.optim")]
    for mine, its in zip(ours, theirs):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["AdamW", "AdamW8bit"])
def test_a_fit_goes_on_with_its_bits(folder, name):
    optimizer = {**OURS, "_component_": f"altgrad.optim.{name}"}
    whole = run(folder, optimizer, 2)
    assert all(map(torch.equal, run(folder, optimizer, 2, resumed=True), whole))


def test_a_fit_steps_in_backward(folder):
    """An optimizer for each parameter, whose hook steps it."""
    words = dict(optimizer_in_bwd=True, clip_grad_norm=None, gradient_accumulation_steps=1)
    ours, theirs = [run(folder, {**OURS, "_component_": f"{of}.AdamW"}, 1, **words) for of in ("altgrad.optim", "torch.optim")]
    for mine, its in zip(ours, theirs):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-5)
