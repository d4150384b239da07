// A step under torch's global default dtype, and in inference mode: the same bits and dtypes as without.
#include "Model.h"

#include <altgrad/ops.h>
#include <altgrad/optim.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <functional>
#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

// While it lives, tensors without a dtype have this one.
struct Default {
  explicit Default(at::ScalarType type) : before(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(type));
  }
  ~Default() { c10::set_default_dtype(before); }
  caffe2::TypeMeta before;
};

// A parameter and everything that three steps leave beside it.
template <typename Kind> std::vector<Tensor> stepped(const Tensor &param, const RuleSpec &spec) {
  Kind optimizer(std::vector<Tensor>{param}, {}, spec);
  for (int step = 0; step < 3; ++step)
    optimizer.step();
  std::vector<Tensor> all{param.detach()};
  for (auto &[key, value] : static_cast<RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl())).tensors())
    all.push_back(value);
  return all;
}

template <typename Kind> void expectSame(const Tensor &param, const char *storage = "") {
  const RuleSpec spec = RuleSpec().storage(storage);
  for (at::ScalarType type : {at::kDouble, at::kBFloat16, at::kHalf}) {
    const Tensor one = twin(param), other = twin(param);
    const std::vector<Tensor> expected = stepped<Kind>(one, spec);
    Default by(type);
    EXPECT_TRUE(sameBits(expected, stepped<Kind>(other, spec))) << storage << " " << type;
  }
}

TEST(Globals, StatesOfRowsHaveTheStepsDtype) { expectSame<NorMuon>(leaf({512, 64})); }

TEST(Globals, ScalesMastersAndCopiesHaveTheirOwnDtypes) {
  expectSame<AdamW>(leaf({64, 128}), "states=ocp.e4m3fn:256");
  expectSame<AdamW>(leaf({64, 128}, at::kBFloat16), "master=f32 copy=ocp.e4m3fn,delayed:2");
  expectSame<AdamW>(leaf({128, 128}, at::kBFloat16), "master=bf16+i16 copy=ocp.e4m3fn:128x128");
}

TEST(Globals, NormsOfNothingAreFloats) {
  Default by(at::kDouble);
  const auto of = altgrad::ops::fused_grad_unscale_clip(at::TensorList(), 1.0, 2.0, false, 2.0, true);
  EXPECT_EQ(of.norm.scalar_type(), at::kFloat);
  EXPECT_EQ(of.found_inf.scalar_type(), at::kFloat);
}

TEST(Globals, StatesThatInferenceModeSawAreWrittenOutsideOfIt) {
  const Tensor one = twin(leaf({512, 64}));
  NorMuon optimizer(std::vector<Tensor>{one});
  {
    Default by(at::kBFloat16);
    c10::InferenceMode on;
    optimizer.step();
  }
  EXPECT_NO_THROW(optimizer.step());
  EXPECT_TRUE(at::isfinite(one).all().item<bool>());
}

} // namespace
