// A torch device for tests, in the host's memory: what only a real device has
// (current device, streams, an allocator, copies that somebody waits for) is
// here and writes down what it is asked.
//
// It is torch's PrivateUse1 with two devices; its streams are those of the test
// driver. Operators run on the CPU, by torch's own fallback.
#include "Notes.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/ScopeExit.h>
#include <torch/library.h>

#include <dlfcn.h>
#include <deque>
#include <set>

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

namespace {

constexpr DeviceIndex deviceCount = 2;
thread_local DeviceIndex currentDevice = 0;
thread_local c10::StreamId currentStream[deviceCount] = {};

template <class... Arguments> int cu(const char *name, Arguments... arguments) {
  static auto find = [] {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    TORCH_CHECK(library, "no test driver: ", dlerror());
    return (int (*)(const char *, void **, int, uint64_t, int *))dlsym(
        library, "cuGetProcAddress_v2");
  }();
  void *function = nullptr;
  int found = 0;
  TORCH_CHECK(find(name, &function, 12080, 0, &found) == 0 && function, "no ",
              name);
  return ((int (*)(Arguments...))function)(arguments...);
}

// Makes the primary context of the current device the thread's.
void enterContext() {
  static void *contexts[deviceCount] = {};
  std::lock_guard<std::mutex> held(lock);
  void *&context = contexts[currentDevice];
  if (!context) {
    cu("cuInit", 0u);
    TORCH_CHECK(cu("cuDevicePrimaryCtxRetain", &context, int(currentDevice)) ==
                0);
  }
  cu("cuCtxSetCurrent", context);
}

//===-- Memory ---------------------------------------------------------------//

// Before this process touches what the device has: all that is queued is done.
void settle() {
  static auto drain = [] {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return library ? (void (*)())dlsym(library, "fakecuda_drain") : nullptr;
  }();
  if (drain)
    drain();
}

struct Block {
  DeviceIndex device;
  void *memory;
  size_t bytes;
  std::set<c10::StreamId> users; // streams besides the current one
};

// Behind what the streams have that it was recorded on, as torch's allocator
// hands memory on.
void spoil(const Block &block) {
  DeviceIndex before = currentDevice;
  currentDevice = block.device;
  enterContext();
  auto *stream = reinterpret_cast<void *>(currentStream[block.device]);
  for (c10::StreamId user : block.users) {
    void *event = nullptr;
    cu("cuEventCreate", &event, 2u);
    cu("cuEventRecord", event, reinterpret_cast<void *>(user));
    cu("cuStreamWaitEvent", stream, event, 0u);
    cu("cuEventDestroy", event);
  }
  int capturing = 0;
  cu("cuStreamIsCapturing", stream, &capturing);
  if (!capturing) // a graph's memory is the graph's
    cu("cuMemsetD8Async", uint64_t(block.memory), (unsigned char)0xff,
       block.bytes, stream);
  currentDevice = before;
  enterContext();
}

struct Memory final : c10::Allocator {
  // What is freed is spoiled, and nobody else's for a while: whoever still
  // reads it finds NaNs, and whoever writes it hurts nobody.
  static void release(void *given) {
    auto *block = static_cast<Block *>(given);
    spoil(*block);
    void *oldest = nullptr;
    {
      std::lock_guard<std::mutex> held(lock);
      static auto *freed = new std::deque<void *>;
      freed->push_back(block->memory);
      if (freed->size() > 4096) {
        oldest = freed->front();
        freed->pop_front();
      }
    }
    if (oldest) {
      settle();
      free(oldest);
    }
    delete block;
  }
  at::DataPtr allocate(size_t size) override {
    size_t rounded = (std::max<size_t>(size, 1) + 511) / 512 * 512;
    auto *block = new Block{
        currentDevice, aligned_alloc(512, rounded), rounded, {}};
    memset(block->memory, 0xa5, rounded);
    note("allocate on " + std::to_string(currentDevice));
    return {block->memory, block, release,
            Device(DeviceType::PrivateUse1, currentDevice)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void *to, const void *from, size_t size) const override {
    memcpy(to, from, size);
  }
} memory;
REGISTER_ALLOCATOR(DeviceType::PrivateUse1, &memory)

//===-- Devices and streams --------------------------------------------------//

struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::PrivateUse1; }
  Device exchangeDevice(Device device) const override {
    Device before = getDevice();
    setDevice(device);
    return before;
  }
  Device getDevice() const override { return {type(), currentDevice}; }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() >= 0 && device.index() < ::deviceCount);
    currentDevice = device.index();
    enterContext();
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    setDevice(device);
  }
  Stream getStream(Device device) const override {
    return Stream(Stream::UNSAFE, device, currentStream[device.index()]);
  }
  Stream getNewStream(Device device, int) const override {
    void *stream = nullptr;
    Device before = exchangeDevice(device);
    cu("cuStreamCreate", &stream, 1u);
    setDevice(before);
    return Stream(Stream::UNSAFE, device, c10::StreamId(stream));
  }
  Stream exchangeStream(Stream stream) const override {
    Stream before = getStream(stream.device());
    currentStream[stream.device_index()] = stream.id();
    return before;
  }
  void *getStreamNativeHandle(const Stream stream) const override {
    return reinterpret_cast<void *>(stream.id());
  }
  // Events are those of the test driver.
  void record(void **event, const Stream &stream, DeviceIndex, c10::EventFlag) const override {
    if (!*event)
      cu("cuEventCreate", event, 2u);
    cu("cuEventRecord", *event, getStreamNativeHandle(stream));
  }
  void block(void *event, const Stream &stream) const override {
    cu("cuStreamWaitEvent", getStreamNativeHandle(stream), event, 0u);
  }
  bool queryEvent(void *event) const override { return !event || cu("cuEventQuery", event) == 0; }
  void synchronizeEvent(void *event) const override {
    note("event awaited");
    cu("cuEventSynchronize", event);
  }
  void destroyEvent(void *event, DeviceIndex) const noexcept override {
    if (event)
      cu("cuEventDestroy", event);
  }
  DeviceIndex deviceCount() const noexcept override { return ::deviceCount; }
  void recordDataPtrOnStream(const c10::DataPtr &data, const Stream &stream) const override {
    note("record " + std::to_string(data.device().index()) + nameOf(stream.id()));
    if (auto *block = static_cast<Block *>(data.get_context()))
      block->users.insert(stream.id());
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  Device getDeviceFromPtr(void *) const override {
    return {DeviceType::PrivateUse1, currentDevice};
  }
} hooks;

//===-- Operators ------------------------------------------------------------//

Device chosen(std::optional<Device> device) {
  return device && device->has_index() ? *device : Device(DeviceType::PrivateUse1, currentDevice);
}

Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard guard(chosen(device));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format);
}

Tensor emptyStrided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                    std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  c10::OptionalDeviceGuard guard(chosen(device));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

// The same memory as a tensor of the CPU.
Tensor onHost(const Tensor &tensor) {
  if (tensor.is_cpu())
    return tensor;
  settle();
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

Tensor copyFrom(const Tensor &self, const Tensor &to, bool nonBlocking) {
  if (const auto stream = nameOf(currentStream[(to.is_cpu() ? self : to).device().index()]); to.is_cpu())
    note((nonBlocking ? "copy to the host" : "wait: copy to the host") + stream);
  else if (self.is_cpu())
    note("copy to the device" + stream);
  onHost(to).copy_(onHost(self));
  return to;
}

const Tensor &resize(const Tensor &self, c10::SymIntArrayRef size,
                     std::optional<at::MemoryFormat>) {
  at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(size);
  if (self.sizes() == sizes) // which keeps the strides
    return self;
  c10::StorageImpl &storage = *self.storage().unsafeGetStorageImpl();
  size_t bytes = size_t(self.storage_offset() + c10::multiply_integers(sizes)) *
                 self.itemsize();
  if (storage.nbytes() < bytes) {
    c10::OptionalDeviceGuard guard(self.device());
    at::DataPtr data = memory.allocate(bytes);
    settle();
    if (storage.nbytes())
      memcpy(data.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(data));
    storage.set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

Tensor copyAndResize(const Tensor &self, const Tensor &to) {
  to.resize_(self.sizes());
  return copyFrom(self, to, false);
}

at::Scalar localScalar(const Tensor &self) {
  note("wait: read a scalar");
  return onHost(self).item();
}

void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  bool outer = inFallback;
  inFallback = true;
  auto after = c10::make_scope_exit([&] { inFallback = outer; });
  at::native::cpu_fallback(op, stack);
}

// Without it each entry would be brought to the CPU and back.
void foreachCopy(at::TensorList to, at::TensorList from, bool) {
  for (size_t i = 0; i < to.size(); ++i)
    to[i].copy_(from[i], true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", emptyStrided);
  m.impl("_copy_from", copyFrom);
  m.impl("_copy_from_and_resize", copyAndResize);
  m.impl("resize_", resize);
  m.impl("_local_scalar_dense", localScalar);
  m.impl("_foreach_copy_", foreachCopy);
  m.impl("record_stream", [](Tensor &self, Stream stream) {
    Guard().recordDataPtrOnStream(self.storage().data_ptr(), stream);
  });
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", [](const Tensor &self, c10::SymIntArrayRef size) {
    return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
  });
  m.impl("set_.source_Storage_storage_offset",
         [](Tensor &self, at::Storage source, c10::SymInt offset,
            c10::SymIntArrayRef size, c10::SymIntArrayRef stride) -> Tensor & {
           return at::native::set_storage_cpu_(
               self, source, offset.expect_int(), C10_AS_INTARRAYREF_SLOW(size),
               C10_AS_INTARRAYREF_SLOW(stride));
         });
}

//===-- torch's functions of CUDA for compiled code --------------------------//

// As libtorch_cuda has them. Handles are tensors of C++.
using Handle = Tensor *;
template <class Body> int computed(const Body &body) {
  try {
    body();
    return 0;
  } catch (const std::exception &error) {
    return fprintf(stderr, "%s\n", error.what());
  }
}

} // namespace

#define SHIM(name, ...) extern "C" __attribute__((visibility("default"))) int aoti_torch_cuda_##name(__VA_ARGS__)

#include "Products.h"

SHIM(add_Scalar, Handle self, double other, double alpha, Handle *sum) {
  return computed([&] { *sum = new Tensor(self->add(other, alpha)); });
}

namespace {

//===-- For the tests --------------------------------------------------------//

std::vector<std::string> takeNotes() {
  std::lock_guard<std::mutex> held(lock);
  named.clear();
  return std::move(written);
}

// Makes another stream the current one of a device; returns the one before.
int64_t useStream(int64_t device, int64_t id) {
  Guard guard;
  Device place(DeviceType::PrivateUse1, DeviceIndex(device));
  if (id < 0)
    id = guard.getNewStream(place, 0).id();
  return guard.exchangeStream(Stream(Stream::UNSAFE, place, id)).id();
}

int64_t useDevice(int64_t device) {
  return Guard()
      .exchangeDevice(Device(DeviceType::PrivateUse1, DeviceIndex(device)))
      .index();
}

TORCH_LIBRARY(altgrad_test_device, m) {
  at::RegisterPrivateUse1HooksInterface(&hooks);
  m.def("take_notes() -> str[]", takeNotes);
  m.def("use_stream(int device, int stream) -> int", useStream);
  m.def("use_device(int device) -> int", useDevice);
  m.def("current_device() -> int", [] { return int64_t(currentDevice); });
}

} // namespace
