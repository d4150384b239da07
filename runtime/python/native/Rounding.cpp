#include "Rounding.h"

#include "ScaleLayout.h"

#include <ATen/EmptyTensor.h>
#include <ATen/NamedTensorUtils.h>
#include <ATen/TracerMode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>

using namespace altgrad;
using namespace altgrad::optim;
using altgrad::native::isReadable;
using at::Tensor;

constexpr float infinite = std::numeric_limits<float>::infinity();
// Between them a double is a normal number in f32, which no flush makes 0.
constexpr double leastNormal = 0x1p-126, beyond = 0x1p128 - 0x1p103;

// Without torch's dispatcher, which takes longer than a thousand elements.
static Tensor emptyLike(const Tensor &x, at::ScalarType type) {
  if (!x.is_cpu() || x.has_names())
    return at::empty_like(x, x.options().dtype(type));
  return at::detail::empty_strided_cpu(x.sizes(), x.strides(), type);
}

namespace {

// The straight-through estimator: the gradient of what is rounded is that of
// the result.
struct StraightThrough : torch::autograd::Node {
  using Grads = torch::autograd::variable_list;
  std::string name() const override { return "altgrad::StraightThrough"; }
  Grads apply(Grads &&grads) override { return std::move(grads); }
  // For compiled autograd: it keeps nothing.
  void
  compiled_args(torch::dynamo::autograd::CompiledNodeArgs &) const override {}
  Grads
  apply_with_saved(const Grads &grads,
                   torch::dynamo::autograd::SwapSavedVariables &) override {
    return grads;
  }
};

} // namespace

// What is read, the step for it and where its scales lie, if they are several.
struct native::Rounding::Work {
  GradientStep *step;
  Listed numbers;
  GradientStep::Pointers scales; // empty: one number for all
};

native::Rounding::Rounding(std::string format, py::object bundle,
                           std::optional<at::ScalarType> codes)
    : format(std::move(format)), bundle(std::move(bundle)), codes(codes) {}

GradientStep &native::Rounding::stepFor(const Listed &numbers,
                                        at::Device device,
                                        const std::string &scales) {
  bool isHost = Where(device).isHost();
  std::shared_ptr<const Program> &program =
      programs[{numbers.kinds[0], isHost, scales}];
  if (!program) {
    const char *word = listFormats[size_t(numbers.kinds[0])];
    auto address = bundle(word, scales, isHost).cast<uintptr_t>();
    program = std::make_shared<Program>(std::shared_ptr<altgrad_bundle>(
        reinterpret_cast<altgrad_bundle *>(address), [](altgrad_bundle *) {}));
  }
  return GradientStep::of(program, numbers, device);
}

// Whether a transform, a mode, a tracer or forward-mode differentiation does.
static bool isSeen(const Tensor &x) {
  using c10::DispatchKey;
  return c10::impl::tls_is_dispatch_key_included(
             DispatchKey::FuncTorchDynamicLayerFrontMode) ||
         c10::impl::TorchDispatchModeTLS::any_modes_set() ||
         at::tracer::impl::is_dispatch_enabled() ||
         x._fw_grad(/*level=*/0).defined();
}

// Rows of one length, whose places are `step` bytes apart.
static std::vector<uint64_t> placesFrom(uint64_t begin, size_t count,
                                        uint64_t step) {
  std::vector<uint64_t> places(count);
  for (size_t i = 0; i < count; ++i)
    places[i] = begin + i * step;
  return places;
}

// Whether all are positive and finite.
static bool areScales(const Tensor &scale) {
  auto isScale = [](float number) { return number > 0 && number < infinite; };
  if (scale.is_contiguous()) {
    auto *begin = static_cast<const float *>(scale.const_data_ptr());
    // No early end: it would take one after the other.
    int bad = 0;
    for (int64_t i = 0, count = scale.numel(); i < count; ++i)
      bad |= !isScale(begin[i]);
    return !bad;
  }
  auto [least, greatest] = at::aminmax(scale.detach()); // NaN where one is NaN
  return isScale(least.item<float>()) && isScale(greatest.item<float>());
}

// Nobody waits for a GPU to look at its scales.
static bool isTaken(const Tensor &scale, const Tensor &x) {
  return isReadable(scale) && scale.device() == x.device() &&
         (!Where(scale.device()).isHost() || areScales(scale));
}

std::optional<native::Rounding::Work>
native::Rounding::plan(const Tensor &x, py::handle given, int64_t block) {
  std::optional<Listed> whole = lookAt({&x}, /*written=*/false);
  // Of the format that they have, numbers would be taken for codes.
  if (!whole || x.numel() == 0 || isSeen(x) ||
      format == listFormats[size_t(whole->kinds[0])])
    return std::nullopt;
  Work work{nullptr, std::move(*whole), {}};
  if (PyFloat_CheckExact(given.ptr())) {
    double number = PyFloat_AS_DOUBLE(given.ptr());
    if (block || !(number >= leastNormal && number < beyond))
      return std::nullopt;
    work.step = &stepFor(work.numbers, x.device(), "");
    work.step->values().give(ALTGRAD_ROLE_SCALE, number);
    return work;
  }
  if (!THPVariable_CheckTypeExact(Py_TYPE(given.ptr())))
    return std::nullopt;
  const Tensor &scale = THPVariable_Unpack(given.ptr());
  if (!isTaken(scale, x) || (block && (x.dim() == 0 || scale.dim() == 0)))
    return std::nullopt;
  if (scale.dim() == 0) {
    work.step = &stepFor(work.numbers, x.device(), "");
    work.step->values().give(ALTGRAD_ROLE_SCALE, scale.detach());
    return work;
  }
  std::optional<ScaleLayout> layout = layoutOf(x, scale, block);
  if (!layout)
    return std::nullopt;
  size_t rows = layout->first.size();
  if (rows > 1)
    work.numbers = {std::string(rows, work.numbers.kinds[0]),
                    std::vector<int64_t>(rows, layout->columns),
                    placesFrom(work.numbers.pointers[0], rows,
                               uint64_t(layout->columns) * x.element_size())};
  auto *begin = static_cast<const float *>(scale.const_data_ptr());
  work.scales.reserve(rows);
  for (int64_t first : layout->first)
    work.scales.push_back(uint64_t(uintptr_t(begin + first)));
  work.step = &stepFor(work.numbers, x.device(), layout->extent);
  return work;
}

py::object native::Rounding::run(py::handle given, py::handle scale,
                                 int64_t block) {
  if (!THPVariable_CheckTypeExact(Py_TYPE(given.ptr())))
    return py::none();
  const Tensor &x = THPVariable_Unpack(given.ptr());
  std::optional<Work> work = plan(x, scale, block);
  if (!work)
    return py::none();
  // Whoever lets go of the lock may wait for it: only much work is worth that.
  constexpr int64_t muchWork = 1 << 16;
  std::optional<py::gil_scoped_release> released;
  if (x.numel() >= muchWork)
    released.emplace();
  Tensor out = unwritten(emptyLike(x, codes.value_or(x.scalar_type())));
  size_t rows = work->numbers.numels.size();
  auto begin = uint64_t(uintptr_t(out.mutable_data_ptr()));
  {
    at::NoGradGuard none;
    work->step->run(work->numbers,
                    {{"copy", placesFrom(begin, rows, out.nbytes() / rows)},
                     {"grad_scale", std::move(work->scales)}});
  }
  if (!codes && torch::autograd::compute_requires_grad(x)) {
    auto node = std::make_shared<StraightThrough>();
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    torch::autograd::set_history(out, node);
  }
  released.reset();
  return py::cast(out);
}

void native::Rounding::addTo(py::module_ &module) {
  py::class_<Rounding>(module, "Rounding", py::module_local())
      .def(py::init<std::string, py::object, std::optional<at::ScalarType>>())
      .def("run", &Rounding::run);
}
