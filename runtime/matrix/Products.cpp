// Reads and checks the products of a manifest.
#include "matrix/Products.h"
#include "altgrad/altgrad.h"

using namespace altgrad::runtime;

namespace {

constexpr double mostFactor = 1 << 20;
constexpr std::pair<const char *, Form> forms[] = {
    {"gram", Form::Gram}, {"square", Form::Square}, {"side", Form::Side}};
constexpr std::pair<const char *, int32_t> types[] = {
    {"bf16", ALTGRAD_GEMM_BF16}, {"f16", ALTGRAD_GEMM_F16}, {"f32", ALTGRAD_GEMM_F32}};

double factorOf(const Fields &fields, const char *key) {
  const nlohmann::json &given = fields.member(key);
  if (!given.is_number() || !(std::abs(given.get<double>()) <= mostFactor))
    fields.reject(key, "is no number of at most 2^20");
  return given.get<double>();
}

} // namespace

Product altgrad::runtime::readProduct(const Fields &fields, int64_t spills) {
  Product product;
  product.form = fields.choice("form", forms);
  product.type = fields.choice("format", types);
  product.bytes = product.type == ALTGRAD_GEMM_F32 ? 4 : 2;
  auto place = [&](const char *key) {
    int64_t bytes = fields.integer(key, 0, spills * 4 - product.bytes);
    if (bytes % product.bytes)
      fields.reject(key, "is " + std::to_string(bytes) + ", not a multiple of a code's bytes");
    return bytes;
  };
  product.left = place("left");
  product.right = place("right");
  product.into = place("into");
  product.added = fields.member("added").is_null() ? -1 : place("added");
  if (product.into == product.left || product.into == product.right)
    fields.reject("into", "is " + std::to_string(product.into) + ", which is multiplied");
  product.factor = factorOf(fields, "factor");
  product.weight = factorOf(fields, "weight");
  return product;
}
