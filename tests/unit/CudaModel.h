// Models of compiled bundles, and plans on the test driver that step them.
#ifndef ALTGRAD_TESTS_CUDAMODEL_H
#define ALTGRAD_TESTS_CUDAMODEL_H

#include "Folder.h"
#include "Sgd.h"
#include "TestDriver.h"

#include <map>

using Bytes = std::vector<uint8_t>;
using Buffers = std::vector<Bytes>; // one for each row, group or step

template <class T> Bytes bytesOf(T value) {
  Bytes all(sizeof value);
  memcpy(all.data(), &value, sizeof value);
  return all;
}

// The tensors and scalars of any bundle whose formats are f32 and bf16.
class Model {
public:
  Model(altgrad_bundle *bundle, const std::vector<int64_t> &sizes, int steps)
      : bundle(bundle) {
    int64_t sets = altgrad_set_count(bundle);
    for (int64_t set = 0; set < sets; ++set)
      for (int64_t size : sizes)
        tensors.push_back(declared(size, set, set));
    groups = sets;
    for (altgrad_tensor &tensor : tensors)
      if (altgrad_has_units(bundle) && tensor.numel % 3 == 0)
        tensor.rows = 3, tensor.columns = tensor.numel / 3;
    for (int64_t i = 0; i < altgrad_stream_count(bundle); ++i)
      for (int step = 0; step < steps; ++step)
        fillStream(i, step);
    for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i)
      for (int step = 0; step < steps; ++step)
        fillScalar(i, step);
  }

  void bind(altgrad_plan *plan) {
    ASSERT_ALTGRAD(altgrad_bind_tensors(plan, tensors.data(),
                                        int64_t(tensors.size()), groups));
    bindStep(plan, 0);
    uint64_t bytes = 0;
    ASSERT_ALTGRAD(altgrad_workspace(plan, &bytes));
    workspace.assign(bytes + 64, 0xa5);
  }
  // What is only read is another one in every step.
  void bindStep(altgrad_plan *plan, int step) {
    for (int64_t i = 0; i < altgrad_stream_count(bundle); ++i) {
      altgrad_stream_info info = streamAt(i);
      int which = info.access == ALTGRAD_IN ? step : 0;
      std::vector<void *> all = pointers(streams[{i, which}]);
      ASSERT_ALTGRAD(altgrad_bind_stream(plan, info.name, all.data(),
                                         int64_t(all.size())));
    }
    for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i) {
      altgrad_scalar_info info = scalarAt(i);
      int which = info.access == ALTGRAD_IN ? step : 0;
      std::vector<void *> all = pointers(scalars[{i, which}]);
      ASSERT_ALTGRAD(altgrad_bind_scalar(plan, info.name, all.data(),
                                         int64_t(all.size())));
    }
  }
  altgrad_status status(altgrad_plan *plan, void *stream) {
    void *aligned = (void *)((uint64_t(workspace.data()) + 63) / 64 * 64);
    return altgrad_run(plan, aligned, workspace.size() - 64, 0, -1, stream);
  }
  void run(altgrad_plan *plan, void *stream) {
    ASSERT_ALTGRAD(status(plan, stream));
  }
  // Tells the driver that all of it is memory of one device.
  void map(int device = 0) {
    forEach([=](Bytes &bytes) {
      ASSERT_TRUE(fakecuda_map_device(bytes.data(), bytes.size(), device));
    });
  }
  void expectBytesOf(const Model &other) const {
    for (auto &[key, buffers] : streams)
      EXPECT_EQ(buffers, other.streams.at(key)) << streamAt(key.first).name;
    for (auto &[key, buffers] : scalars)
      EXPECT_EQ(buffers, other.scalars.at(key)) << scalarAt(key.first).name;
  }
  bool hasBytesOf(const Model &other) const {
    return streams == other.streams && scalars == other.scalars;
  }
  template <class Visit> void forEach(Visit visit) {
    for (auto *all : {&streams, &scalars})
      for (auto &[key, buffers] : *all)
        for (Bytes &bytes : buffers)
          if (!bytes.empty())
            visit(bytes);
    visit(workspace);
  }

private:
  static std::vector<void *> pointers(Buffers &buffers) {
    std::vector<void *> all;
    for (Bytes &bytes : buffers)
      all.push_back(bytes.empty() ? nullptr : bytes.data());
    return all;
  }
  altgrad_stream_info streamAt(int64_t i) const {
    altgrad_stream_info info{};
    info.size = sizeof info;
    EXPECT_EQ(altgrad_stream_at(bundle, i, &info), ALTGRAD_OK);
    return info;
  }
  altgrad_scalar_info scalarAt(int64_t i) const {
    altgrad_scalar_info info{};
    info.size = sizeof info;
    EXPECT_EQ(altgrad_scalar_at(bundle, i, &info), ALTGRAD_OK);
    return info;
  }
  void fillStream(int64_t i, int step) {
    altgrad_stream_info info = streamAt(i);
    if (info.access != ALTGRAD_IN && step)
      return;
    bool isSquare = std::string(info.key) == "v";
    uint64_t random = uint64_t(i) * 977 + uint64_t(step) * 31 + 5;
    for (const altgrad_tensor &tensor : tensors) {
      if (tensor.set != info.set)
        continue;
      Bytes bytes;
      for (int64_t n = 0; n < tensor.numel; ++n) {
        random = random * 6364136223846793005 + 1442695040888963407;
        float value = float(int64_t(random >> 40) - (1 << 23)) / (1 << 23);
        Bytes one = bytesOf(isSquare ? value * value : value);
        bytes.insert(bytes.end(), one.begin() + 4 - info.bits / 8, one.end());
      }
      streams[{i, step}].push_back(bytes);
    }
  }
  void fillScalar(int64_t i, int step) {
    altgrad_scalar_info info = scalarAt(i);
    if (info.access != ALTGRAD_IN && step)
      return;
    double value = info.has_default                      ? info.value
                   : info.role == ALTGRAD_ROLE_SCALE     ? 4
                   : info.role == ALTGRAD_ROLE_INV_SCALE ? 0.25
                   : info.role == ALTGRAD_ROLE_MAX_NORM  ? 1.5
                   : info.role == ALTGRAD_ROLE_FLAG      ? step == 1
                                                         : 0;
    Bytes bytes = info.type == ALTGRAD_F64   ? bytesOf(value)
                  : info.type == ALTGRAD_F32 ? bytesOf(float(value))
                  : info.type == ALTGRAD_I64 ? bytesOf(int64_t(value))
                                             : bytesOf(int32_t(value));
    size_t count = info.scope == ALTGRAD_PER_STEP    ? 1
                   : info.scope == ALTGRAD_PER_GROUP ? size_t(groups)
                                                     : 0;
    for (const altgrad_tensor &tensor : tensors)
      count += info.scope == ALTGRAD_PER_TENSOR &&
               (info.set < 0 || info.set == tensor.set);
    scalars[{i, step}] = Buffers(count, bytes);
  }

  altgrad_bundle *bundle;
  std::vector<altgrad_tensor> tensors;
  int64_t groups = 0;
  std::map<std::pair<int64_t, int>, Buffers> streams, scalars;
  Bytes workspace;
};

const inline std::vector<std::string> stepsOfUsers = {
    "--rule=adamw",
    "--rule=adamw\n--storage=param=bf16 grad=bf16 master=f32\n--clip\n--scaler",
    "--set=rule=adamw param=f32 grad=f32\n"
    "--set=rule=adamw param=bf16 grad=bf16 states=param\n--clip\n--scaler",
    "--rule=lamb\n--clip=agc-unit\n--unscale\n--statistics"};

class CudaPlan : public Folder {
protected:
  static BundlePointer
  compile(const std::string &options,
          const std::string &targets = "x86-64-v3,sm_80,sm_90") {
    altgrad_bundle *bundle = nullptr;
    std::string all = options + "\n--target=" + targets;
    EXPECT_EQ(altgrad_compile(nullptr, 0, all.c_str(), nullptr, &bundle),
              ALTGRAD_OK)
        << altgrad_last_error();
    return BundlePointer(bundle);
  }
  static PlanPointer create(altgrad_bundle *bundle, const char *device) {
    altgrad_plan *plan = nullptr;
    EXPECT_EQ(altgrad_plan_create(bundle, device, &plan), ALTGRAD_OK)
        << altgrad_last_error();
    return PlanPointer(plan);
  }
  static Model start(altgrad_bundle *bundle) {
    return Model(bundle, {1, 4097, 0, 300, 4096 + 13}, 5);
  }
  static void runOnHost(altgrad_bundle *bundle, Model &model,
                        const std::vector<int> &order = {0, 1, 2, 3, 4}) {
    PlanPointer plan = create(bundle, "cpu:v3");
    model.bind(plan.get());
    for (int step : order) {
      model.bindStep(plan.get(), step);
      model.run(plan.get(), nullptr);
    }
  }
  // Steps on two streams in turn, with other gradients each time, nobody
  // waiting.
  static void runOnDevice(altgrad_bundle *bundle, Model &model, bool maps,
                          int steps = 5) {
    PlanPointer plan = create(bundle, "cuda:0");
    model.bind(plan.get());
    if (maps)
      model.map();
    cu("cuCtxPushCurrent", cuPrimaryContext());
    void *streams[] = {cuNewStream(), cuNewStream()}, *context = nullptr;
    for (int step = 0; step < steps; ++step) {
      model.bindStep(plan.get(), step);
      model.run(plan.get(), streams[step % 2]);
    }
    fakecuda_drain();
    EXPECT_STREQ(fakecuda_fault(), "");
    EXPECT_GT(fakecuda_get("instructions"), 0);
    cu("cuCtxPopCurrent", &context);
  }
};

#endif // ALTGRAD_TESTS_CUDAMODEL_H
