// Tensors for the hand-written bundle, and its mathematics in plain loops.
#ifndef ALTGRAD_TESTS_SGD_H
#define ALTGRAD_TESTS_SGD_H

#include "altgrad/altgrad.h"
#include "altgrad/format.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#define ASSERT_ALTGRAD(call) ASSERT_EQ(call, ALTGRAD_OK) << altgrad_last_error()

// Expects a status and words in the error.
#define EXPECT_REFUSED(call, status, words)                                    \
  do {                                                                         \
    EXPECT_EQ(call, status);                                                   \
    EXPECT_NE(std::string(altgrad_last_error()).find(words),                   \
              std::string::npos)                                               \
        << altgrad_last_error();                                               \
  } while (0)

struct FreeBundle {
  void operator()(altgrad_bundle *b) const { altgrad_bundle_free(b); }
};
struct FreePlan {
  void operator()(altgrad_plan *p) const { altgrad_plan_free(p); }
};
struct FreeMemory {
  void operator()(void *p) const { free(p); }
};
using BundlePointer = std::unique_ptr<altgrad_bundle, FreeBundle>;
using PlanPointer = std::unique_ptr<altgrad_plan, FreePlan>;

inline BundlePointer loadSgd(const char *path = SGD_BUNDLE) {
  altgrad_bundle *bundle = nullptr;
  EXPECT_EQ(altgrad_load(path, &bundle), ALTGRAD_OK) << altgrad_last_error();
  return BundlePointer(bundle);
}

inline PlanPointer planSgd(const char *device = "cpu",
                           const char *path = SGD_BUNDLE) {
  altgrad_plan *plan = nullptr;
  BundlePointer bundle = loadSgd(path);
  EXPECT_EQ(altgrad_plan_create(bundle.get(), device, &plan), ALTGRAD_OK)
      << altgrad_last_error();
  return PlanPointer(plan);
}
inline PlanPointer planSets() { return planSgd("cpu", SETS_BUNDLE); }

// A tensor as it is declared where nothing special is to say of it.
inline altgrad_tensor declared(int64_t numel, int64_t group = 0,
                               int64_t set = 0) {
  return {sizeof(altgrad_tensor), numel, 0, 0, 0, group, set, -1, 0, 0, 0};
}

// The tensors of one model. Two groups, rows alternating between them.
struct Tensors {
  explicit Tensors(std::vector<int64_t> numel) {
    for (size_t row = 0; row < numel.size(); ++row) {
      size_t n = size_t(numel[row]);
      list.push_back(declared(numel[row], int64_t(row % 2)));
      grads.emplace_back(n);
      master.emplace_back(n);
      model.emplace_back(n);
      for (size_t i = 0; i < n; ++i) {
        grads[row][i] = float(int(i * 37 + row) % 101 - 50) / 64;
        master[row][i] = float(int(i * 53 + row) % 211 - 100) / 32;
      }
    }
    t.assign(numel.size(), 0);
  }

  template <typename T>
  static std::vector<void *> pointers(std::vector<std::vector<T>> &rows) {
    std::vector<void *> all;
    for (std::vector<T> &row : rows)
      all.push_back(row.empty() ? nullptr : row.data());
    return all;
  }

  void bind(altgrad_plan *plan) {
    int64_t rows = int64_t(list.size());
    std::vector<void *> steps, rates{&lr[0], &lr[1]}, norms{&gnorm};
    for (int64_t &step : t)
      steps.push_back(&step);
    ASSERT_ALTGRAD(altgrad_bind_tensors(plan, list.data(), rows, 2));
    ASSERT_ALTGRAD(
        altgrad_bind_stream(plan, "grads", pointers(grads).data(), rows));
    ASSERT_ALTGRAD(
        altgrad_bind_stream(plan, "master", pointers(master).data(), rows));
    ASSERT_ALTGRAD(
        altgrad_bind_stream(plan, "model", pointers(model).data(), rows));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "lr", rates.data(), 2));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "t", steps.data(), rows));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "gnorm", norms.data(), 1));
    uint64_t bytes = 0;
    ASSERT_ALTGRAD(altgrad_workspace(plan, &bytes));
    workspace.reset(aligned_alloc(64, bytes + 64));
    workspaceBytes = bytes;
  }

  altgrad_status run(altgrad_plan *plan, int64_t first = 0, int64_t last = -1) {
    return altgrad_run(plan, workspace.get(), workspaceBytes, first, last,
                       nullptr);
  }

  // What one step makes of these tensors, without the runtime.
  void step() {
    gnorm = 0;
    for (size_t row = 0; row < list.size(); ++row) {
      float rate = float(lr[row % 2]);
      for (size_t first = 0; first < grads[row].size(); first += 4096) {
        float sum = 0;
        for (size_t i = first; i < std::min(first + 4096, grads[row].size());
             ++i)
          sum += grads[row][i] * grads[row][i];
        gnorm += sum;
      }
      for (size_t i = 0; i < grads[row].size(); ++i) {
        master[row][i] -= rate * grads[row][i];
        model[row][i] = uint16_t(altgrad::encode(
            altgrad::bf16Format, master[row][i], altgrad::Rounding::NearestEven,
            altgrad::Overflow::NonFinite));
      }
      ++t[row];
    }
  }

  bool equals(const Tensors &other) const {
    return master == other.master && model == other.model && t == other.t &&
           gnorm == other.gnorm;
  }

  std::vector<altgrad_tensor> list;
  std::vector<int64_t> t;
  std::vector<std::vector<float>> grads, master;
  std::vector<std::vector<uint16_t>> model;
  double lr[2] = {0.125, 0.5};
  float gnorm = 0;
  std::unique_ptr<void, FreeMemory> workspace;
  uint64_t workspaceBytes = 0;
};

// Sizes around a chunk, an empty one among them.
inline std::vector<int64_t> awkwardSizes() {
  return {1, 4096, 0, 4097, 4095, 7, 3 * 4096, 100000};
}

#endif // ALTGRAD_TESTS_SGD_H
