"""Fits LoRA's adapters of a small Llama by transformers' Trainer under accelerate's FSDP2, as each process of torchrun; rank 0
writes what it found to a file.

    torchrun --nproc-per-node 2 peft_fit.py FILE
"""

import gc
import sys

import torch
import transformers
from accelerate import FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType
from peft import LoraConfig, get_peft_model
from torch.distributed.tensor import DTensor

import altgrad

STEPS, HALF = 8, 4
WORDS = dict(lr=3e-3, weight_decay=0.1)
MAKES = {"torch's AdamW": (torch.optim.AdamW, WORDS), "AdamW": (altgrad.optim.AdamW, WORDS),
         "DistAdamW": (altgrad.distributed.DistAdamW, WORDS), "AdamW8bit": (altgrad.optim.AdamW8bit, WORDS),
         "Muon": (altgrad.optim.Muon, dict(lr=3e-3))}


def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=48, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=16, pad_token_id=0)
    net = transformers.LlamaForCausalLM(config)
    return get_peft_model(net, LoraConfig(r=8, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"]))


def rows():
    texts = [[(start + (1 + start % 2) * place) % 40 + 1 for place in range(12)] for start in range(64)]
    return [{"input_ids": text, "labels": text} for text in texts]


class Trainer(transformers.Trainer):
    """Accelerate takes DDP on a CPU, whatever it was asked for; this is the line that it needs to take FSDP2."""

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        state = self.accelerator.state
        state.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
            cpu_ram_efficient_loading=False, state_dict_type="SHARDED_STATE_DICT")
        self.is_fsdp_enabled = True


def fit(name, folder, resumed=None):
    arguments = transformers.TrainingArguments(
        folder, use_cpu=True, max_steps=STEPS, save_steps=HALF, per_device_train_batch_size=4, report_to=[], disable_tqdm=True,
        lr_scheduler_type="cosine", max_grad_norm=0.5, logging_steps=1)
    trainer = Trainer(model(), arguments, train_dataset=rows(), data_collator=transformers.default_data_collator,
                      optimizer_cls_and_kwargs=MAKES[name])
    trainer.train(resume_from_checkpoint=resumed)
    stepped = [param for group in trainer.optimizer.param_groups for param in group["params"]]
    assert stepped and all(isinstance(param, DTensor) for param in stepped)
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return losses, [param.full_tensor().detach() for param in trainer.model.parameters() if param.requires_grad]


def main(path):
    torch.set_num_threads(1)
    found = {}
    for name in MAKES:
        found[name] = fit(name, f"{path}.{name}")
        found[name, "resumed"] = fit(name, f"{path}.{name}", f"{path}.{name}/checkpoint-{HALF}")
    if torch.distributed.get_rank() == 0:
        torch.save(found, path)
    torch.distributed.barrier()
    gc.collect()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
