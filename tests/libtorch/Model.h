// A small model on a fixed set, and what tests ask of tensors.
#ifndef ALTGRAD_TESTS_LIBTORCH_MODEL_H
#define ALTGRAD_TESTS_LIBTORCH_MODEL_H

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/optimizer.h>

#include <cstring>
#include <vector>

namespace altgrad::tests {

using at::Tensor;

struct MlpImpl : torch::nn::Module {
  MlpImpl() {
    at::manual_seed(7);
    first = register_module("first", torch::nn::Linear(8, 48));
    second = register_module("second", torch::nn::Linear(48, 1));
  }
  Tensor forward(const Tensor &x) {
    return second->forward(at::tanh(first->forward(x)));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Mlp);

struct Samples {
  Samples() {
    at::manual_seed(3);
    x = at::randn({256, 8});
    y = at::sin(x.sum(1, true)) + 0.1 * x.select(1, 0).unsqueeze(1);
  }
  Tensor x, y;
};

inline Tensor loss(Mlp &model, const Samples &samples) {
  return at::mse_loss(model->forward(samples.x), samples.y);
}

// The losses before each of `steps` steps.
inline std::vector<double> train(Mlp &model, torch::optim::Optimizer &optimizer,
                                 const Samples &samples, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    Tensor value = loss(model, samples);
    value.backward();
    optimizer.step();
    losses.push_back(value.item<double>());
  }
  return losses;
}

inline bool sameBits(const Tensor &a, const Tensor &b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

inline bool sameBits(const std::vector<Tensor> &a,
                     const std::vector<Tensor> &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!sameBits(a[i], b[i]))
      return false;
  return a.size() == b.size();
}

// A leaf with a gradient, both random.
inline Tensor leaf(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  Tensor param = at::randn(sizes).to(type).requires_grad_();
  param.mutable_grad() = at::randn(sizes).to(type);
  return param;
}

inline Tensor twin(const Tensor &param) {
  Tensor copy = param.detach().clone().requires_grad_();
  if (param.grad().defined())
    copy.mutable_grad() = param.grad().clone();
  return copy;
}

} // namespace altgrad::tests

#endif // ALTGRAD_TESTS_LIBTORCH_MODEL_H
