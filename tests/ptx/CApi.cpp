// The C interface: C++ errors become sentences.
#include "ptxinterp.h"

#include "Coverage.h"
#include "Machine.h"
#include "Parser.h"
#include "Registry.h"

using namespace ptx;

// One string a thread, so that ptx_error() stays valid until the next failure.
static thread_local std::string lastError;

struct ptx_vm {
  std::unique_ptr<Module> module;
  // Module variables point into `module`: it goes first and dies last.
  Memory memory;
  LaunchResult last;
  std::vector<std::string> forms, kernels;
};

static int failed(const std::string &why) {
  lastError = why;
  return 0;
}

ptx_vm *ptx_create(const char *text) {
  try {
    auto vm = std::make_unique<ptx_vm>();
    vm->module = parseModule(text);
    for (ModuleVariable &v : vm->module->variables)
      if (v.space == Space::Global)
        vm->memory.map(v.name, v.address, v.bytes.size(), v.bytes.data(),
                       RegionVariable);
    for (const auto &entry : countForms(*vm->module))
      vm->forms.push_back(entry.first);
    for (const auto &entry : vm->module->kernels)
      vm->kernels.push_back(entry.first);
    return vm.release();
  } catch (const std::exception &e) {
    failed(e.what());
    return nullptr;
  }
}

void ptx_destroy(ptx_vm *vm) { delete vm; }

const char *ptx_error(void) { return lastError.c_str(); }

static int mapRegion(ptx_vm *vm, uint64_t address, void *host, uint64_t bytes,
                     unsigned flags) {
  try {
    vm->memory.map("region " + hex(address), address, bytes,
                   static_cast<uint8_t *>(host), flags);
    return 1;
  } catch (const std::exception &e) {
    return failed(e.what());
  }
}

int ptx_map(ptx_vm *vm, uint64_t address, void *host, uint64_t bytes,
            unsigned flags) {
  if (!host)
    // A null pointer would mean a sparse region, silently.
    return failed("no buffer to map");
  return mapRegion(vm, address, host, bytes, flags);
}

int ptx_reserve(ptx_vm *vm, uint64_t address, uint64_t bytes, unsigned flags) {
  return mapRegion(vm, address, nullptr, bytes, flags);
}

int ptx_unmap(ptx_vm *vm, uint64_t address) {
  return vm->memory.unmap(address) ? 1 : failed("nothing is mapped there");
}

static Region *hostRange(ptx_vm *vm, uint64_t address, uint64_t bytes) {
  Region *r = vm->memory.find(address);
  if (r && r->contains(address, bytes))
    return r;
  failed("the range " + hex(address) + " + " + std::to_string(bytes) +
         " is not mapped");
  return nullptr;
}

int ptx_write(ptx_vm *vm, uint64_t address, const void *from, uint64_t bytes) {
  Region *r = hostRange(vm, address, bytes);
  if (r)
    r->poke(address, static_cast<const uint8_t *>(from), bytes);
  return r != nullptr;
}

int ptx_read(ptx_vm *vm, uint64_t address, void *to, uint64_t bytes) {
  Region *r = hostRange(vm, address, bytes);
  if (r)
    r->peek(address, static_cast<uint8_t *>(to), bytes);
  return r != nullptr;
}

/// Zeros in the C struct mean "as usual", so that callers can start from {}.
static LaunchOptions decode(const ptx_launch_options &from) {
  LaunchOptions o;
  for (unsigned n = 0; n < 3; ++n) {
    o.grid[n] = from.grid[n];
    o.block[n] = from.block[n];
  }
  o.dynamicSharedBytes = from.dynamic_shared_bytes;
  auto bytes = static_cast<const uint8_t *>(from.parameters);
  if (bytes)
    o.parameters.assign(bytes, bytes + from.parameter_bytes);
  o.firstBlock = from.first_block;
  if (from.last_block)
    o.lastBlock = from.last_block;
  if (from.step_limit)
    o.stepLimit = from.step_limit;
  if (from.resident_blocks)
    o.residentBlocks = from.resident_blocks;
  o.order = BlockOrder(from.order % 3);
  o.seed = from.seed;
  o.perturbation = from.perturbation;
  o.checkRaces = !from.skip_race_check;
  o.follows = from.follows;
  return o;
}

int ptx_launch(ptx_vm *vm, const char *name,
               const ptx_launch_options *options) {
  vm->last = {};
  const Kernel *kernel = vm->module->find(name);
  if (!kernel) {
    vm->last.fault = FaultKind::BadLaunch;
    return failed(std::string("bad-launch: no kernel '") + name + "'");
  }
  LaunchOptions o = decode(*options);
  try {
    vm->last = Machine(*vm->module, *kernel, vm->memory, o).run();
    // A fault of the kernel is no exception here; this is the interpreter's
    // own.
  } catch (const std::exception &e) { // out of memory, say
    vm->last.fault = FaultKind::BadLaunch;
    return failed(e.what());
  }
  return vm->last.fault == FaultKind::None ? 1 : failed(vm->last.message);
}

const char *ptx_fault_kind(const ptx_vm *vm) { return nameOf(vm->last.fault); }
unsigned ptx_fault_line(const ptx_vm *vm) { return vm->last.line; }
uint64_t ptx_steps(const ptx_vm *vm) { return vm->last.steps; }

const char *ptx_kernel_name(const ptx_vm *vm, size_t index) {
  return index < vm->kernels.size() ? vm->kernels[index].c_str() : nullptr;
}

int64_t ptx_parameter_bytes(const ptx_vm *vm, const char *kernel) {
  const Kernel *k = vm->module->find(kernel);
  return k ? int64_t(k->parameterBytes) : -1;
}

const char *ptx_module_form(const ptx_vm *vm, size_t index) {
  return index < vm->forms.size() ? vm->forms[index].c_str() : nullptr;
}

const char *ptx_known_form(size_t index) {
  // Pointers into the registry, which lives as long as the process.
  static const std::vector<const char *> names = [] {
    std::vector<const char *> all;
    for (const auto &entry : Registry::get().all())
      all.push_back(entry.first.c_str());
    return all;
  }();
  return index < names.size() ? names[index] : nullptr;
}
