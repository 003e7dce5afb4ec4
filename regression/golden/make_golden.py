#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the golden files: tiny models trained for three steps by PyTorch and Hugging Face transformers.

Each file holds a configuration, data, initial weights, and what PyTorch made of them: logits, losses, gradients,
gradient norms and the weights after three AdamW steps. The C tests read these files; they need no Python.
README.md describes the contents and the formulas.

The fp32 files come from the code of transformers as it is. The fp64 files need one change, because transformers
computes RMS norms, rotary tables and the attention's softmax in float32 whatever the model's dtype is: `lift`
replaces these three in one model object. That it does this, all of this and nothing else is checked on every run:
  * lifted to float32 instead, the model gives the bits of the untouched one;
  * lifted to float64, no operation of a forward and backward pass sees a floating-point tensor of another dtype;
  * central differences of the loss agree with the gradients;
  * the unlifted fp64 model and the fp32 run differ from it as much as float32 rounding explains.

Usage: make_golden.py [--output DIRECTORY]
"""

import argparse
import functools
import json
import os
from dataclasses import dataclass

os.environ["USE_HUB_KERNELS"] = "NO"  # only the code of the pinned packages, never a downloaded kernel

import h5py
import numpy as np
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.llama.modeling_llama import repeat_kv

STEPS, BATCH, LENGTH, VOCAB = 3, 4, 13, 101
LR, BETA1, BETA2, WEIGHT_DECAY, CLIP = 1e-2, 0.9, 0.95, 0.1, 1.0
EPS = {"fp64": 1e-8, "fp32": 1e-4}
DTYPE = {"fp64": torch.float64, "fp32": torch.float32}


# ---- the models -----------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """One model; `lifted` says whether its code needs the lift to run in double.

    The seeds are such that three steps do not amplify float32 rounding (check_fp32_is_near finds it well under its
    bound): a weight whose gradient is nearly zero can do so, even with the larger eps of the fp32 files.
    """

    name: str
    config_class: type
    model_class: type
    options: dict
    seed: int
    lifted: bool = True
    documents: bool = False
    precisions: tuple = ("fp64", "fp32")


GPT2 = dict(n_embd=15, n_head=3, n_layer=2, n_inner=37, n_positions=17, activation_function="gelu_new",
            embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, summary_first_dropout=0.0)
LLAMA = dict(hidden_size=9, num_attention_heads=3, num_key_value_heads=1, head_dim=6, num_hidden_layers=2,
             intermediate_size=23)
LLAMA_GQA2 = dict(hidden_size=12, num_attention_heads=6, num_key_value_heads=2, head_dim=4, num_hidden_layers=2,
                  intermediate_size=19, rms_norm_eps=1e-5, rope_theta=500000.0)
QWEN2 = dict(hidden_size=12, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=3, intermediate_size=19,
             rope_theta=1000000.0, tie_word_embeddings=True)
QWEN3 = dict(hidden_size=9, num_attention_heads=3, num_key_value_heads=3, head_dim=6, num_hidden_layers=2,
             intermediate_size=22, rms_norm_eps=1e-3, rope_theta=1000000.0)

CASES = (
    Case("gpt2", transformers.GPT2Config, transformers.GPT2LMHeadModel, GPT2, seed=5, lifted=False),
    Case("llama", transformers.LlamaConfig, transformers.LlamaForCausalLM, LLAMA, seed=5),
    Case("llama-docs", transformers.LlamaConfig, transformers.LlamaForCausalLM, LLAMA, seed=5, documents=True,
         precisions=("fp64",)),
    Case("llama-gqa2", transformers.LlamaConfig, transformers.LlamaForCausalLM, LLAMA_GQA2, seed=1),
    Case("qwen2", transformers.Qwen2Config, transformers.Qwen2ForCausalLM, QWEN2, seed=8),
    Case("qwen3", transformers.Qwen3Config, transformers.Qwen3ForCausalLM, QWEN3, seed=6),
)


def make_config(case):
    common = dict(vocab_size=VOCAB, bos_token_id=0, eos_token_id=0, architectures=[case.model_class.__name__])
    if case.config_class is not transformers.GPT2Config:
        common["max_position_embeddings"] = 17
    return case.config_class(**common, **case.options)


def config_json(config):
    """The text of config.json, with rope_theta also at its older place, where most published files have it."""
    content = json.loads(config.to_json_string())
    if "rope_parameters" in content:
        content["rope_theta"] = content["rope_parameters"]["rope_theta"]
    return json.dumps(content, indent=2, sort_keys=True)


def draw_weights(model, seed):
    """Large enough, and nowhere zero or one, that every term of every gradient counts. Drawn once, in float32."""
    rng = np.random.default_rng([seed, 0])
    weights = {}
    for name, parameter in model.named_parameters():  # a tied head is not listed
        noise = rng.standard_normal(tuple(parameter.shape)).astype(np.float32)
        is_norm_weight = parameter.ndim == 1 and name.endswith("weight")
        weights[name] = np.float32(1) + np.float32(0.2) * noise if is_norm_weight else np.float32(0.25) * noise
    return weights


def make_model(case, precision, lift_dtype=None):
    """The model with its initial weights; lift_dtype: what norms, rotary tables and softmax compute in."""
    model = case.model_class._from_config(make_config(case), attn_implementation="eager")
    weights = draw_weights(model, case.seed)
    model.to(DTYPE[precision])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))
    if lift_dtype is not None:
        lift(model, lift_dtype)
    return model.train()


# ---- the lift: three places where transformers says float32 ---------------------------------------------------------


def lifted_rms_norm(module, dtype, hidden):
    """LlamaRMSNorm.forward (Qwen2 and Qwen3 have the same) with `dtype` for float32."""
    wide = hidden.to(dtype)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
    return module.weight * wide.to(hidden.dtype)


def lifted_rotary(module, dtype, hidden, position_ids):
    """LlamaRotaryEmbedding: the frequencies of its constructor and its forward, with `dtype` for float32."""
    config = module.config
    assert module.rope_type == "default" and module.attention_scaling == 1.0
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    theta = config.rope_parameters["rope_theta"]
    inv_freq = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=dtype) / dim))
    freqs = position_ids[..., None].to(dtype) * inv_freq
    table = torch.cat((freqs, freqs), dim=-1)
    return table.cos().to(hidden.dtype), table.sin().to(hidden.dtype)


def lifted_attention(dtype, module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
    """eager_attention_forward of modeling_llama.py with `dtype` for float32."""
    assert dropout == 0.0 and attention_mask is not None
    key, value = repeat_kv(key, module.num_key_value_groups), repeat_kv(value, module.num_key_value_groups)
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling + attention_mask
    weights = torch.softmax(scores, dim=-1, dtype=dtype).to(query.dtype)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def lift(model, dtype):
    """Make this one model compute its norms, rotary tables and softmax in dtype. Its class stays as it is."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = functools.partial(lifted_rms_norm, module, dtype)
        elif type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = functools.partial(lifted_rotary, module, dtype)
    name = f"eager_{dtype}".replace(".", "_")
    AttentionInterface.register(name, functools.partial(lifted_attention, dtype))
    AttentionMaskInterface.register(name, eager_mask)
    model.set_attn_implementation(name)


# ---- data -----------------------------------------------------------------------------------------------------------


@dataclass
class Data:
    tokens: np.ndarray  # [STEPS, B, T+1] int64
    mask: np.ndarray  # [STEPS, B, T] uint8
    documents: np.ndarray = None  # [STEPS, B, T] int32

    def attention(self):
        """[STEPS, B, T, T]: 1 where query (third index) may see key (last index)."""
        same = self.documents[..., :, None] == self.documents[..., None, :]
        return (same & np.tril(np.ones((LENGTH, LENGTH), dtype=bool))).astype(np.uint8)


def draw_data(case):
    rng = np.random.default_rng([case.seed, 1])
    tokens = rng.integers(0, VOCAB, size=(STEPS, BATCH, LENGTH + 1), dtype=np.int64)
    mask = (rng.random((STEPS, BATCH, LENGTH)) < 0.85).astype(np.uint8)
    for step in range(STEPS):  # one sequence with two valid positions only, one with all
        mask[step, (step + 2) % BATCH] = 0
        mask[step, (step + 2) % BATCH, [3 + step, 11 - step]] = 1
        mask[step, (step + 1) % BATCH] = 1
    return Data(tokens, mask, draw_documents() if case.documents else None)


def draw_documents():
    """Two documents a sequence, but also three, one, and one of a single token; ids count within the sequence."""
    starts = [[5], [4, 9], [], [1]]
    documents = np.zeros((STEPS, BATCH, LENGTH), dtype=np.int32)
    for step in range(STEPS):
        for row, cuts in enumerate(starts):
            for cut in cuts:
                documents[step, (row + step) % BATCH, cut + step:] += 1
    return documents


# ---- forward, loss, training ----------------------------------------------------------------------------------------


def additive_mask(allowed, dtype):
    """[B, 1, T, T], as transformers' eager masks: 0 where allowed, the most negative number elsewhere."""
    allowed = torch.from_numpy(allowed).bool()[:, None]
    return torch.where(allowed, torch.zeros((), dtype=dtype), torch.finfo(dtype).min)


def logits_of(model, data, step):
    attention = None if data.documents is None else additive_mask(data.attention()[step], model.dtype)
    inputs = torch.from_numpy(data.tokens[step, :, :-1])
    return model(input_ids=inputs, attention_mask=attention, use_cache=False).logits


def loss_of(logits, data, step):
    """Sum of cross entropies over valid positions / their number; log_softmax in the dtype of the logits."""
    labels = torch.from_numpy(data.tokens[step, :, 1:])
    valid = torch.from_numpy(data.mask[step]).bool()
    log_probability = torch.log_softmax(logits, dim=-1).gather(-1, labels[..., None])[..., 0]
    return -log_probability[valid].sum() / int(valid.sum())


def make_optimizer(model, eps):
    parameters = list(model.parameters())
    groups = [dict(params=[p for p in parameters if p.ndim >= 2], weight_decay=WEIGHT_DECAY),
              dict(params=[p for p in parameters if p.ndim < 2], weight_decay=0.0)]
    return torch.optim.AdamW(groups, lr=LR, betas=(BETA1, BETA2), eps=eps, foreach=False, fused=False)


def numpy_of(tensors):
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors}


def train(model, data, eps):
    """Three steps; returns everything a golden file records of them."""
    optimizer = make_optimizer(model, eps)
    result = dict(weights=numpy_of(model.named_parameters()), losses=[], grad_norms=[])
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = logits_of(model, data, step)
        loss = loss_of(logits, data, step)
        loss.backward()
        if step == 0:
            result["logits"] = logits.detach().numpy().copy()
            result["grads"] = numpy_of((name, p.grad) for name, p in model.named_parameters())
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP, foreach=False)
        optimizer.step()
        result["losses"].append(loss.item())
        result["grad_norms"].append(norm.item())
    result["after"] = numpy_of(model.named_parameters())
    return result


# ---- proof that the numbers are right -------------------------------------------------------------------------------


class DtypeWatch(TorchDispatchMode):
    """Notes, for each operation that runs inside it, the dtypes of all floating-point tensors in and out."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, torch.Tensor)]
        dtypes = {t.dtype for t in tensors if t.is_floating_point()}
        self.seen.setdefault(func.overloadpacket.__name__, set()).update(dtypes)
        return out

    def dtypes(self):
        return set().union(*self.seen.values())


def watch_dtypes(model, data):
    with DtypeWatch() as watch:
        loss_of(logits_of(model, data, 0), data, 0).backward()
    return watch


def check_lift_is_complete(case, data):
    """Everything in double: softmax, norms, rotary tables, loss, and the backward pass of all of them."""
    watch = watch_dtypes(make_model(case, "fp64", torch.float64 if case.lifted else None), data)
    expected = {"_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data"}
    expected |= {"rsqrt", "cos", "sin", "silu"} if case.lifted else {"native_layer_norm", "tanh"}
    assert expected <= set(watch.seen), expected - set(watch.seen)
    assert watch.dtypes() == {torch.float64}, {op: d for op, d in watch.seen.items() if d != {torch.float64}}

    plain = watch_dtypes(make_model(case, "fp64"), data).dtypes()
    assert (torch.float32 in plain) == case.lifted, "transformers changed: is the lift still needed?"


def check_lift_changes_only_dtype(case, data):
    """Lifted to float32, the replaced functions must give the very bits of those of transformers."""
    untouched = train(make_model(case, "fp32"), data, EPS["fp32"])
    lifted = train(make_model(case, "fp32", torch.float32), data, EPS["fp32"])
    assert np.array_equal(untouched["logits"], lifted["logits"])
    assert untouched["losses"] == lifted["losses"]


def check_unlifted_is_near(case, data, golden):
    """Without the lift fp64 is off by float32 rounding; for GPT-2, which needs no lift, not at all."""
    logits = logits_of(make_model(case, "fp64"), data, 0).detach().numpy()
    difference = np.abs(logits - golden["logits"]).max() / np.abs(golden["logits"]).max()
    assert 1e-9 < difference < 2e-6 if case.lifted else difference == 0, difference
    return difference


def central_difference(model, data, parameter, direction, h=3e-4):
    """Derivative of the first loss along direction, error O(h^4)."""
    def loss_at(shift):
        with torch.no_grad():
            parameter.add_(direction, alpha=shift)
            loss = loss_of(logits_of(model, data, 0), data, 0).item()
            parameter.sub_(direction, alpha=shift)
        return loss

    near = (loss_at(h) - loss_at(-h)) / (2 * h)
    far = (loss_at(2 * h) - loss_at(-2 * h)) / (4 * h)
    return (4 * near - far) / 3


def check_gradients(case, model, data, golden):
    """Every tensor: along its gradient, and for the one element with the largest gradient."""
    worst = 0.0
    for name, parameter in model.named_parameters():
        grad = torch.from_numpy(golden["grads"][name])
        element = torch.zeros_like(grad)
        element.view(-1)[grad.abs().argmax()] = 1.0
        for direction in (grad / grad.norm(), element):
            expected = (grad * direction).sum().item()
            error = abs(central_difference(model, data, parameter, direction) - expected) / abs(expected)
            assert error < 1e-6, (case.name, name, error)
            worst = max(worst, error)
    return worst


def r3_error(a, b, floor):
    """The largest error of a tensor as the reproducibility contract measures it."""
    return max(np.abs(a[name] - b[name]).max() / max(np.abs(b[name]).max(), floor) for name in b)


def check_fp32_is_near(case, data, single):
    """The fp32 run against a double run with the same eps, by the contract's measure for fp32."""
    double = train(make_model(case, "fp64", torch.float64 if case.lifted else None), data, EPS["fp32"])
    flat = np.concatenate([grad.ravel() for grad in double["grads"].values()])
    losses = max(abs(a / b - 1) for a, b in zip(single["losses"], double["losses"]))
    grads = r3_error(single["grads"], double["grads"], np.sqrt(np.mean(flat**2)))
    weights = r3_error(single["after"], double["after"], LR)
    assert losses < 1e-5 and grads < 1e-5 and weights < 1e-5, (losses, grads, weights)
    return losses, grads, weights


def check_documents(case, model, data, golden):
    """A document alone, at its positions in the sequence, must give the logits it has when packed."""
    for row in range(BATCH):
        for document in np.unique(data.documents[0, row]):
            where = np.flatnonzero(data.documents[0, row] == document)
            tokens = torch.from_numpy(data.tokens[0, row, where])[None]
            positions = torch.from_numpy(where)[None]
            alone = model(input_ids=tokens, position_ids=positions, use_cache=False).logits[0].detach().numpy()
            assert np.abs(alone - golden["logits"][row, where]).max() < 1e-12, (row, document)


# ---- files ----------------------------------------------------------------------------------------------------------


def write_text_attribute(file, name, text):
    """A fixed-length string with its terminating zero: the simplest kind to read from C."""
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(len(text.encode("ascii")) + 1)
    kind.set_strpad(h5py.h5t.STR_NULLTERM)
    attribute = h5py.h5a.create(file.id, name.encode(), kind, h5py.h5s.create(h5py.h5s.SCALAR))
    attribute.write(np.array(text.encode("ascii"), dtype=f"S{len(text) + 1}"), mtype=kind)


def write_attributes(file, case, precision):
    texts = dict(config=config_json(make_config(case)), dtype=precision, torch_version=torch.__version__,
                 transformers_version=transformers.__version__, numpy_version=np.__version__,
                 h5py_version=h5py.__version__)
    for name, text in texts.items():
        write_text_attribute(file, name, text)
    numbers = dict(lr=LR, beta1=BETA1, beta2=BETA2, eps=EPS[precision], weight_decay=WEIGHT_DECAY, clip=CLIP)
    for name, number in numbers.items():
        file.attrs.create(name, number, dtype=np.float64)


def write_golden(path, case, precision, data, result):
    """Contiguous, uncompressed, in the earliest file format, so that any HDF5 reads it."""
    real = np.float64 if precision == "fp64" else np.float32
    with h5py.File(path, "w", libver="earliest") as file:
        write_attributes(file, case, precision)
        file["tokens"], file["mask"] = data.tokens, data.mask
        if data.documents is not None:
            file["documents"], file["attention"] = data.documents, data.attention()
        for name in ("losses", "grad_norms"):
            file[name] = np.array(result[name], dtype=real)
        file["logits"] = result["logits"]
        for group in ("weights", "grads", "after"):
            for name, value in result[group].items():
                assert value.dtype == real
                file[f"{group}/{name}"] = value


def check_file(path):
    """Read back: the first loss and norm must follow from the recorded logits and gradients, in plain numpy."""
    with h5py.File(path) as file:
        logits = file["logits"][:].astype(np.float64)
        log_sum = np.log(np.exp(logits).sum(-1))
        chosen = np.take_along_axis(logits, file["tokens"][0, :, 1:][..., None], -1)[..., 0]
        loss = np.average(log_sum - chosen, weights=file["mask"][0])
        norm = np.sqrt(sum((grad[:].astype(np.float64) ** 2).sum() for grad in file["grads"].values()))
        tolerance = 1e-13 if file.attrs["dtype"] == b"fp64" else 1e-6
        assert abs(loss / file["losses"][0] - 1) < tolerance and abs(norm / file["grad_norms"][0] - 1) < tolerance


def make_case(case, directory):
    data = draw_data(case)
    check_lift_is_complete(case, data)
    if case.lifted:
        check_lift_changes_only_dtype(case, data)
    report = ""
    for precision in case.precisions:
        lift_dtype = torch.float64 if precision == "fp64" and case.lifted else None
        model = make_model(case, precision, lift_dtype)
        state = set(model.state_dict()) - ({"lm_head.weight"} if model.config.tie_word_embeddings else set())
        result = train(model, data, EPS[precision])
        assert set(result["weights"]) == set(result["grads"]) == set(result["after"]) == state
        assert max(result["grad_norms"]) > CLIP, "clipping is not in effect"
        if precision == "fp64":
            fresh = make_model(case, precision, lift_dtype)
            report += f"  finite differences {check_gradients(case, fresh, data, result):.1e}"
            report += f", unlifted logits {check_unlifted_is_near(case, data, result):.1e}"
            if case.documents:
                check_documents(case, make_model(case, precision, lift_dtype), data, result)
        else:
            report += ", fp32 losses %.1e gradients %.1e weights %.1e" % check_fp32_is_near(case, data, result)
        path = os.path.join(directory, f"{case.name}-{precision}.h5")
        write_golden(path, case, precision, data, result)
        check_file(path)
        numbers = " ".join(f"{x:.4f}" for x in result["losses"] + result["grad_norms"])
        print(f"{os.path.basename(path):20} {os.path.getsize(path):7} bytes, losses and norms {numbers}")
    print(report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.path.dirname(os.path.abspath(__file__)))
    directory = parser.parse_args().output
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    for case in CASES:
        make_case(case, directory)


if __name__ == "__main__":
    main()
