// Launches a bundle's own kernels for symmetric products, and measures them once for each shape.
#include "cuda/Products.h"
#include "Status.h"
#include "altgrad/products.h"
#include "files/Cache.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace altgrad::runtime;

namespace {

constexpr int rounds = 5;                 // after one that warms up
constexpr int64_t mostCompared = 1 << 20; // numbers
constexpr int64_t mostTiles = 65535;      // of a grid's y and z
constexpr int64_t pieceElements = 8;      // 16 bytes
// Of the largest number. What rounding leaves is far below it, and what is broken above.
constexpr double tolerance = 1.0 / (1 << 5);

// Never destroyed: the driver may be gone before.
struct Decisions {
  std::mutex lock;
  std::map<std::string, bool> own; // by key
};
Decisions &decisions() {
  static auto *all = new Decisions;
  return *all;
}

bool isPieces(const void *address) { return uint64_t(address) % (2 * pieceElements) == 0; }
bool isPieces(int64_t elements) { return elements % pieceElements == 0; }
// Of a matrix one stride is 1.
int64_t lineOf(int64_t row, int64_t column) { return std::max(row, column); }

double numberOf(uint16_t code, int32_t type) {
  const int digits = type == ALTGRAD_GEMM_BF16 ? 7 : 10, exponent = (code & 0x7fff) >> digits;
  const int least = 2 - (1 << (14 - digits)), fraction = code & ((1 << digits) - 1);
  if (exponent + 1 == 1 << (15 - digits))
    return NAN;
  const int whole = exponent ? fraction + (1 << digits) : fraction;
  const double size = std::ldexp(whole, std::max(exponent, 1) - 1 + least - digits);
  return code >> 15 ? -size : size;
}

// In parts of the largest number; NAN where one is not finite.
double farthest(const OwnProducts::Try &one, const OwnProducts::Try &other, int32_t type) {
  double far = 0, largest = 0;
  for (size_t i = 0; i < one.codes.size(); ++i) {
    const double a = numberOf(one.codes[i], type), b = numberOf(other.codes[i], type);
    if (std::isnan(a - b))
      return NAN;
    far = std::max(far, std::abs(a - b));
    largest = std::max(largest, std::abs(b));
  }
  return largest > 0 ? far / largest : far;
}

// Times what is given to a stream.
class Stopwatch {
public:
  Stopwatch(const Driver &driver, CudaStream stream) : driver(driver), stream(stream) {}
  Stopwatch(const Stopwatch &) = delete;
  ~Stopwatch() {
    for (Event event : events)
      if (event)
        driver.cuEventDestroy(event);
  }
  template <typename Body> altgrad_status time(Body body, float &ms) {
    Result error = 0;
    for (Event &event : events)
      if (!error && !event)
        error = driver.cuEventCreate(&event, 0);
    if (!error)
      error = driver.cuEventRecord(events[0], stream);
    if (!error)
      if (altgrad_status status = body())
        return status;
    if (!error)
      error = driver.cuEventRecord(events[1], stream);
    if (!error)
      error = driver.cuEventSynchronize(events[1]);
    if (!error)
      error = driver.cuEventElapsedTime(&ms, events[0], events[1]);
    return error ? driver.refuse(error, "measuring products") : ALTGRAD_OK;
  }

private:
  const Driver &driver;
  CudaStream stream;
  Event events[2] = {};
};

} // namespace

altgrad_status OwnProducts::open() {
  const altgrad::ProductsBy by = altgrad::productsBy();
  if (by == altgrad::ProductsBy::Unknown)
    return fail(ALTGRAD_INVALID, "%s is \"%.100s\"; there are auto, own and library", altgrad::productsVariable,
                secure_getenv(altgrad::productsVariable));
  forced = by == altgrad::ProductsBy::Own;
  measures = by == altgrad::ProductsBy::Auto && !kernels->identity.empty();
  return ALTGRAD_OK;
}

// Null where they do not do such a product.
Function OwnProducts::kernelFor(const altgrad_gemm &product) const {
  if ((product.type != ALTGRAD_GEMM_BF16 && product.type != ALTGRAD_GEMM_F16) || product.shift != 0)
    return nullptr;
  const int64_t a = lineOf(product.a_row, product.a_column), b = lineOf(product.b_row, product.b_column);
  for (const void *address : {product.a, product.b, product.d, (const void *)product.c})
    if (!isPieces(address))
      return nullptr;
  for (int64_t elements : {product.n, a, b, product.c_row, product.a_matrix, product.b_matrix, product.c_matrix})
    if (!isPieces(elements))
      return nullptr;
  if (product.k > INT32_MAX || product.batch > mostTiles || product.n > mostTiles * ALTGRAD_SYMMETRIC_ROWS)
    return nullptr;
  return kernels->symmetric[product.type][product.a_column != 1];
}

// Batches are a class up to the next power of two, so that there are few.
std::string OwnProducts::keyOf(const altgrad_gemm &product) const {
  int64_t batch = 1;
  while (batch < product.batch)
    batch *= 2;
  std::string shape = product.type == ALTGRAD_GEMM_BF16 ? "bf16" : "f16";
  shape += product.a_column == 1 ? " rows" : " columns";
  for (int64_t count : {batch, product.n, product.k, int64_t(product.d != nullptr)})
    shape += " " + std::to_string(count);
  std::string key = "altgrad product 1\n" + kernels->identity;
  addPart(key, "shape", shape);
  return key;
}

altgrad_status OwnProducts::launch(const altgrad_gemm &product) const {
  altgrad_gemm p = product;
  int64_t a = lineOf(p.a_row, p.a_column), b = lineOf(p.b_row, p.b_column);
  float alpha = float(p.alpha), beta = float(p.beta);
  void *parameters[] = {&p.a, &p.b,        &p.d,     &p.c, &p.a_matrix, &a,     &p.b_matrix,
                        &b,   &p.c_matrix, &p.c_row, &p.n, &p.k,        &alpha, &beta};
  auto tiles = [&](int64_t each) { return unsigned((p.n + each - 1) / each); };
  Result error = driver.cuLaunchKernel(
      kernelFor(product), tiles(ALTGRAD_SYMMETRIC_COLUMNS), tiles(ALTGRAD_SYMMETRIC_ROWS), unsigned(p.batch),
      ALTGRAD_BLOCK_THREADS, 1, 1, ALTGRAD_SYMMETRIC_SHARED, static_cast<CudaStream>(p.stream), parameters, nullptr);
  return error ? driver.refuse(error, "a kernel for symmetric products") : ALTGRAD_OK;
}

altgrad_status OwnProducts::measure(const altgrad_gemm &product, const Library &library, Try &byKernel,
                                    Try &byLibrary) const {
  const auto stream = static_cast<CudaStream>(product.stream);
  Stopwatch watch(driver, stream);
  auto run = [&](Try &each, const Library &body) -> altgrad_status {
    float ms = 0;
    if (altgrad_status status = watch.time(body, ms))
      return status;
    if (!each.codes.empty()) {
      each.ms = std::min(each.ms, ms);
      return ALTGRAD_OK;
    }
    each.codes.resize(size_t(std::min(product.n * product.n, mostCompared)));
    Result error = driver.cuMemcpyDtoHAsync(each.codes.data(), DevicePointer(product.c), each.codes.size() * 2, stream);
    return error ? driver.refuse(error, "comparing products") : ALTGRAD_OK; // memory that is not pinned is there now
  };
  for (int i = 0; i <= rounds; ++i) {
    if (altgrad_status status = run(byKernel, [&] { return launch(product); }))
      return status;
    if (altgrad_status status = run(byLibrary, library))
      return status;
  }
  return ALTGRAD_OK;
}

// Numbers that are not finite decide nothing: whether ours are right could not be seen.
altgrad_status OwnProducts::decide(const altgrad_gemm &product, const Library &library, const std::string &key,
                                   bool &own) const {
  Try byKernel, byLibrary;
  if (altgrad_status status = measure(product, library, byKernel, byLibrary))
    return status;
  const double far = farthest(byKernel, byLibrary, product.type);
  own = far <= tolerance && byKernel.ms < byLibrary.ms;
  if (std::isnan(far))
    return ALTGRAD_OK;
  char words[128];
  const int size = snprintf(words, sizeof words, "%s: %g ms of its own kernel, %g ms of the library, %g apart\n",
                            own ? "own" : "library", byKernel.ms, byLibrary.ms, far);
  Cache().keep(key, {words, words + size});
  std::lock_guard<std::mutex> held(decisions().lock); // a second thread may have measured, too
  own = decisions().own.emplace(key, own).first->second;
  return ALTGRAD_OK;
}

altgrad_status OwnProducts::isFaster(const altgrad_gemm &product, const Library &library, bool &own) const {
  const std::string key = keyOf(product);
  {
    std::lock_guard<std::mutex> held(decisions().lock);
    if (auto found = decisions().own.find(key); found != decisions().own.end()) {
      own = found->second;
      return ALTGRAD_OK;
    }
  }
  own = false;
  std::vector<char> words;
  if (!Cache().find(key, words) || words.empty())
    return captured ? ALTGRAD_OK : decide(product, library, key, own);
  std::lock_guard<std::mutex> held(decisions().lock);
  own = decisions().own.emplace(key, words[0] == 'o').first->second;
  return ALTGRAD_OK;
}

// What is measured on one machine may be otherwise on another: who asks for bits gets the library's.
altgrad_status OwnProducts::multiply(const altgrad_gemm &product, bool alone, const Library &library) {
  bool own = forced;
  if (!kernelFor(product))
    return library();
  if (measures && !alone)
    if (altgrad_status status = isFaster(product, library, own))
      return status;
  return own ? launch(product) : library();
}
