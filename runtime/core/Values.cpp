// The numbers of a step: what kernels read of groups and of the whole step, and
// what the step says of itself.
#include "Tensor.h"
#include "altgrad_core.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace altgrad::core;

namespace {

template <typename T> void put(double value, void *cell) {
  const T typed = T(value);
  memcpy(cell, &typed, sizeof typed);
}
template <typename T> double get(const void *cell) {
  T value;
  memcpy(&value, cell, sizeof value);
  return double(value);
}

// By the types of altgrad.h, in their order.
struct Type {
  int32_t (*dtype)();
  void (*put)(double, void *);
  double (*get)(const void *);
};
const Type types[] = {{aoti_torch_dtype_float64, put<double>, get<double>},
                      {aoti_torch_dtype_int64, put<int64_t>, get<int64_t>},
                      {aoti_torch_dtype_float32, put<float>, get<float>},
                      {aoti_torch_dtype_int32, put<int32_t>, get<int32_t>},
                      {aoti_torch_dtype_bool, put<bool>, get<bool>}};

struct Number {
  std::string name;
  int32_t set, access;
  bool isShared; // a hyper-parameter for which all groups give one number
  int64_t count; // how many lie behind its pointer
  Type type;
};

// A value lies in a cell of 8 bytes, in its own type.
struct Cell {
  const Number *number;
  Held tensor{};       // that has the value on the device
  bool placed = false; // the step reads and writes it there; else it is copied
};

} // namespace

struct altgrad_core_values {
  altgrad_core_values(altgrad_bundle *bundle, const int32_t *sets, int64_t count) : groups(sets, sets + count) {
    for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i) {
      auto of = describe<altgrad_scalar_info>(altgrad_scalar_at, bundle, i);
      const bool isHyper = of.role == ALTGRAD_ROLE_HYPER, ofStep = of.scope == ALTGRAD_PER_STEP;
      if (isHyper || ofStep)
        (isHyper ? hypers : singles)
            .push_back({of.name, of.set, of.access, isHyper && ofStep,
                        of.role == ALTGRAD_ROLE_HISTORY ? ALTGRAD_HISTORY : 1, types[of.type]});
    }
    for (int32_t set : groups) {
      first.push_back(cells.size());
      for (const Number &hyper : hypers)
        if (isOf(hyper, set))
          cells.push_back({&hyper});
    }
    first.push_back(cells.size());
    for (const Number &single : singles)
      cells.push_back({&single});
    // One more: the begin of a last group without any is an address, too.
    host.assign(cells.size() + 1, 0);
  }

  static bool isOf(const Number &hyper, int32_t set) { return hyper.set < 0 || hyper.set == set; }
  size_t at(int64_t group, int64_t index) const {
    return first[group < 0 ? groups.size() : size_t(group)] + size_t(index);
  }
  double get(size_t at) const { return cells[at].number->type.get(&host[at]); }

  void set(size_t at, double value) {
    if (cells[at].tensor)
      take(at, nullptr);
    cells[at].number->type.put(value, &host[at]);
    changed = true;
  }
  void set(const int64_t *of, int64_t count, const double *numbers) {
    for (int64_t i = 0; i < count; ++i)
      for (size_t cell = at(of[i], 0); cell < at(of[i] + 1, 0); ++cell)
        set(cell, *numbers++);
  }
  void take(size_t at, Handle tensor) {
    if (tensor && numelOf(tensor) != 1)
      throw Refusal(ALTGRAD_INVALID, "'" + cells[at].number->name + "' is a tensor of " +
                                         std::to_string(numelOf(tensor)) + " elements, expected 1");
    sources += (tensor != nullptr) - (cells[at].tensor != nullptr);
    cells[at].tensor = hold(tensor);
    toggled = true;
  }
  void bind(size_t at, Handle tensor) {
    Cell &cell = cells[at];
    if (cell.placed && objectOf(cell.tensor) == objectOf(tensor))
      return;
    const Number &of = *cell.number;
    const bool here = device ? onSameDevice(device, tensor)
                             : ask<int32_t>(aoti_torch_get_device_type, tensor) == aoti_torch_device_type_cpu();
    if (typeOf(tensor) != of.type.dtype() || numelOf(tensor) != of.count || !isContiguous(tensor) || !here ||
        !isWithin(tensor))
      throw Refusal(ALTGRAD_INVALID, "no place for '" + of.name + "'");
    cell = {&of, hold(tensor), true};
    bound.clear();
    toggled = true;
  }

  void *pointerTo(size_t at) {
    const Cell *cell = at < cells.size() ? &cells[at] : nullptr;
    if (cell && cell->placed)
      return writableOf(cell->tensor);
    const bool result = at >= first.back() && cell->number->access != ALTGRAD_IN;
    return device && (result || (cell && cell->tensor)) ? onDevice(at) : &host[at];
  }
  void *onDevice(size_t at) { return device ? static_cast<uint64_t *>(writableOf(device)) + at : &host[at]; }

  void bindHypers(altgrad_plan *plan) {
    std::vector<void *> pointers(groups.size());
    std::vector<size_t> next(first.begin(), first.end() - 1);
    for (const Number &hyper : hypers) {
      for (size_t group = 0; group < groups.size(); ++group)
        pointers[group] = pointerTo(isOf(hyper, groups[group]) ? next[group]++ : first[group]);
      const size_t count = hyper.isShared ? 1 : pointers.size();
      check(altgrad_bind_scalar(plan, hyper.name.c_str(), pointers.data(), int64_t(count)));
    }
  }
  // A hyper-parameter of the step has a cell in each group, and the step reads that of the first.
  void checkShared() const {
    for (const Number &hyper : hypers) {
      const Cell *of = nullptr;
      if (!hyper.isShared)
        continue;
      for (const Cell &cell : cells) {
        if (cell.number != &hyper)
          continue;
        of = of ? of : &cell;
        if (host[size_t(&cell - cells.data())] != host[size_t(of - cells.data())])
          throw Refusal(ALTGRAD_INVALID, "'" + hyper.name + "' is one number for all groups, and they give " +
                                             std::to_string(get(size_t(of - cells.data()))) + " and " +
                                             std::to_string(get(size_t(&cell - cells.data()))));
      }
    }
  }
  void bind(altgrad_plan *plan) {
    std::vector<char> now(1); // never empty
    for (const Cell &cell : cells)
      now.push_back(cell.tensor != nullptr);
    toggled = false;
    if (now == bound)
      return;
    check(altgrad_mirror(plan, host.data(), host.size() * sizeof host[0]));
    bindHypers(plan);
    for (size_t at = first.back(); at < cells.size(); ++at) {
      void *pointer = pointerTo(at);
      check(altgrad_bind_scalar(plan, cells[at].number->name.c_str(), &pointer, 1));
    }
    bound = std::move(now);
  }

  // A tensor of one number, whatever its dimensions.
  void copy(size_t at) {
    Handle from = cells[at].tensor, to = nullptr;
    require(aoti_torch_create_tensor_from_blob(
        onDevice(at), dimsOf(from), sizesOf(from), stridesOf(from), 0, cells[at].number->type.dtype(),
        device ? ask<int32_t>(aoti_torch_get_device_type, device) : aoti_torch_device_type_cpu(),
        device ? ask<int32_t>(aoti_torch_get_device_index, device) : 0, &to));
    Held held(to);
    require(aoti_torch_copy_(to, from, /*non_blocking=*/device != nullptr));
  }
  void send(altgrad_plan *plan) {
    if (toggled)
      bind(plan);
    if (changed)
      checkShared();
    changed = false;
    for (size_t at = 0; sources > 0 && at < cells.size(); ++at)
      if (cells[at].tensor && !cells[at].placed)
        copy(at);
  }

  std::vector<int32_t> groups; // the set of each
  std::vector<Number> hypers, singles;
  std::vector<size_t> first; // cell of each group, and of the singles
  std::vector<Cell> cells;
  std::vector<uint64_t> host; // which the runtime brings to the device
  Held device;                // the same cells there, for tensors and results
  int64_t sources = 0;        // cells with a tensor that is copied
  std::vector<char> bound;    // which cells had a tensor when all were bound
  bool toggled = true;        // a tensor came or went since
  bool changed = true;        // a number did since the last step
};

int32_t altgrad_core_scalar_dtype(int32_t type) { return types[type].dtype(); }

altgrad_status altgrad_core_values_create(altgrad_bundle *bundle, const int32_t *sets, int64_t count,
                                          altgrad_core_values **out) {
  return guarded([&] { *out = new altgrad_core_values(bundle, sets, count); });
}
void altgrad_core_values_free(altgrad_core_values *values) { delete values; }

int64_t altgrad_core_values_cell(const altgrad_core_values *values, int64_t group, int64_t index) {
  return int64_t(values->at(group, index));
}
altgrad_status altgrad_core_values_use(altgrad_core_values *values, AtenTensorHandle memory) {
  return guarded([&] { values->device = hold(memory); });
}
altgrad_status altgrad_core_values_set(altgrad_core_values *values, const int64_t *groups, int64_t count,
                                       const double *numbers) {
  return guarded([&] { values->set(groups, count, numbers); });
}
altgrad_status altgrad_core_values_give(altgrad_core_values *values, int64_t index, double number) {
  return guarded([&] { values->set(values->at(-1, index), number); });
}
altgrad_status altgrad_core_values_take(altgrad_core_values *values, int64_t group, int64_t index,
                                        AtenTensorHandle tensor) {
  return guarded([&] { values->take(values->at(group, index), tensor); });
}
altgrad_status altgrad_core_values_bind(altgrad_core_values *values, int64_t index, AtenTensorHandle tensor) {
  return guarded([&] { values->bind(values->at(-1, index), tensor); });
}
altgrad_status altgrad_core_values_send(altgrad_core_values *values, altgrad_plan *plan) {
  return guarded([&] { values->send(plan); });
}
double altgrad_core_values_get(const altgrad_core_values *values, int64_t group, int64_t index) {
  return values->get(values->at(group, index));
}

// What becomes "next_scale" is called "grad_scale".
static bool becomes(const altgrad_scalar_info &now, const altgrad_scalar_info &next) {
  const std::string key = now.key, end = next.key + strlen("next_");
  return now.access == ALTGRAD_IN && key.size() >= end.size() && key.substr(key.size() - end.size()) == end;
}

static void layOut(altgrad_bundle *bundle, int64_t *cells, int64_t *now) {
  std::vector<altgrad_scalar_info> singles;
  for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i)
    singles.push_back(describe<altgrad_scalar_info>(altgrad_scalar_at, bundle, i));
  std::fill(cells, cells + singles.size(), -1);
  *now = 1;
  for (const altgrad_scalar_info &of : singles)
    *now += of.access == ALTGRAD_OUT;
  int64_t made = 0, rest = 2 * *now;
  for (size_t i = 0; i < singles.size(); ++i)
    for (size_t from = 0; singles[i].access == ALTGRAD_OUT && from < singles.size(); ++from)
      if (becomes(singles[from], singles[i])) {
        cells[from] = made;
        cells[i] = *now + made++;
        break;
      }
  for (size_t i = 0; i < singles.size(); ++i)
    if (cells[i] < 0)
      cells[i] = strcmp(singles[i].key, "found") == 0 ? *now - 1 : rest++;
}

altgrad_status altgrad_core_scaler(altgrad_bundle *bundle, int64_t *cells, int64_t *now) {
  return guarded([&] { layOut(bundle, cells, now); });
}
