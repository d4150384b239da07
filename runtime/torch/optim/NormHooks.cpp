// Hooks that sum gradients in backward.
#include "optim/NormHooks.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <pthread.h>

using namespace altgrad::optim;
using at::Tensor;
using torch::autograd::variable_list;

// Of one binding; it has no tables when that is gone.
struct NormHooks::Watched {
  std::shared_ptr<std::mutex> running;
  std::vector<TensorTable *> tables;
};

// All of the process. A child of fork has no thread that would ever end a turn
// which began in its parent: it gets a new lock.
struct NormHooks::Live {
  static Live &instance() {
    static Live &only = *new Live;
    return only;
  }
  Live() { pthread_atfork(take, giveBack, renew); }
  static void take() { instance().lock.lock(); }
  static void giveBack() { instance().lock.unlock(); }
  static void renew() {
    for (NormHooks *hooks : instance().all)
      if (hooks->running->try_lock())
        hooks->running->unlock();
      else
        hooks->running = std::make_shared<std::mutex>();
    giveBack();
  }

  std::mutex lock;
  std::set<NormHooks *> all;
};

NormHooks::NormHooks() {
  std::lock_guard<std::mutex> held(Live::instance().lock);
  Live::instance().all.insert(this);
}

NormHooks::~NormHooks() {
  {
    auto last = lock();
    remove();
  }
  std::lock_guard<std::mutex> held(Live::instance().lock);
  Live::instance().all.erase(this);
}

struct NormHooks::Hook : torch::autograd::FunctionPostHook {
  Hook(const std::shared_ptr<Watched> &watched, size_t table, int64_t row) : watched(watched), table(table), row(row) {}

  variable_list operator()(const variable_list &outputs, const variable_list &) override {
    std::shared_ptr<Watched> of = watched.lock();
    // A step that runs in another thread does not wait, and nobody waits for
    // it.
    std::unique_lock<std::mutex> lock;
    if (of)
      lock = std::unique_lock(*of->running, std::try_to_lock);
    if (lock && !of->tables.empty()) {
      at::NoGradGuard disabled;
      of->tables[table]->sum(row);
    }
    return outputs;
  }

  // A graph that is compiled has no part in it: the step sums.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs &) const override {}

  std::weak_ptr<Watched> watched;
  size_t table;
  int64_t row;
};

void NormHooks::remove() {
  for (auto &[node, key] : hooks)
    node->del_post_hook(key);
  hooks.clear();
  if (watched)
    watched->tables.clear();
  watched.reset();
}

void NormHooks::attach(const std::vector<TensorTable *> &tables) {
  remove();
  watched = std::make_shared<Watched>(Watched{running, tables});
  for (size_t t = 0; t < tables.size(); ++t) {
    const TensorTable &table = *tables[t];
    const char *why = table.unsummed();
    if (why && *why)
      warnOnce("", why);
    for (size_t row = 0; !why && row < table.rows().size(); ++row) {
      const Tensor &param = *table.rows()[row].param;
      if (!param.requires_grad() || !param.is_leaf() || param.nbytes() < ALTGRAD_HOOK_BYTES)
        continue;
      auto node = torch::autograd::impl::grad_accumulator(param);
      uintptr_t key = node->add_post_hook(std::make_unique<Hook>(watched, t, int64_t(row)));
      hooks.emplace_back(std::move(node), key);
    }
  }
}

void NormHooks::warnOfUnused() {
  int64_t changed = 0;
  if (watched)
    for (const TensorTable *table : watched->tables)
      changed += table->summedRows()[1];
  if (changed)
    warnOnce(std::to_string(changed) + " ", "gradients were changed after backward, so the step read them once "
                                       "more");
}

void NormHooks::warnOnce(const std::string &count, const std::string &reason) {
  if (warned.insert(reason).second)
    TORCH_WARN("altgrad: norm_in_backward: ", count, reason);
}
