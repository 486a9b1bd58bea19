// Features of texts.
#include <algorithm>

#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// Of the output, which is as wide as the largest index asks for.
constexpr int64_t kMaxColumns = int64_t{1} << 24;

/// The n-grams to count: `pool` holds all of length 1, then all of length 2 and so on, from `counts[length -
/// 1]` on.
struct Pool {
  std::vector<int64_t> words, starts, columns;
  int64_t shortest, longest, max_skip;

  int64_t begin(int64_t length) const { return starts[length - 1]; }
  int64_t end(int64_t length) const {
    return length < static_cast<int64_t>(starts.size()) ? starts[length] : static_cast<int64_t>(words.size());
  }
  int64_t grams(int64_t length) const { return (end(length) - begin(length)) / length; }
};

/// The pool's words: numbers, or the ids of strings.
std::vector<int64_t> pool_words(const Call& call, bool strings) {
  for (const char* name : {"pool_strings", "pool_int64s"})
    if (call.has_attribute(name) != (strings == (std::string_view(name) == "pool_strings")))
      call.fail(ErrorKind::Value, std::string(name) + " for a text of " + (strings ? "strings" : "numbers") +
                                      ", expected a pool of such words alone");
  return strings ? ids_of(call, call.texts("pool_strings")) : call.integers("pool_int64s");
}

Pool pool_of(const Call& call, bool strings) {
  Pool pool{pool_words(call, strings),       call.integers("ngram_counts"),   call.integers("ngram_indexes"),
            call.integer("min_gram_length"), call.integer("max_gram_length"), call.integer("max_skip_count")};
  const int64_t lengths = static_cast<int64_t>(pool.starts.size());
  if (pool.shortest < 1 || pool.shortest > pool.longest || pool.longest > lengths || pool.max_skip < 0)
    call.fail(ErrorKind::Value, "grams of " + std::to_string(pool.shortest) + " to " +
                                    std::to_string(pool.longest) + " words, expected 1 to " +
                                    std::to_string(lengths));
  int64_t grams = 0, end = 0;
  for (int64_t length = 1; length <= lengths; ++length) {
    if (pool.begin(length) < end || pool.end(length) > static_cast<int64_t>(pool.words.size()) ||
        pool.begin(length) > pool.end(length) || (pool.end(length) - pool.begin(length)) % length != 0)
      call.fail(ErrorKind::Value, "ngram_counts, expected ascending places that cut the pool into n-grams");
    grams += pool.grams(length);
    end = pool.end(length);
  }
  if (pool.columns.empty() || static_cast<int64_t>(pool.columns.size()) != grams ||
      *std::min_element(pool.columns.begin(), pool.columns.end()) < 0)
    call.fail(ErrorKind::Value, "ngram_indexes has " + std::to_string(pool.columns.size()) +
                                    " entries, expected one of at least 0 for each of " +
                                    std::to_string(grams) + " n-grams");
  if (*std::max_element(pool.columns.begin(), pool.columns.end()) >= kMaxColumns)
    call.fail(ErrorKind::Limit, "ngram_indexes, expected them below " + std::to_string(kMaxColumns));
  return pool;
}

/// How often each n-gram of a length occurs in [texts, words], its words up to max_skip others apart: [texts,
/// grams].
Tensor occurrences(const Pool& pool, int64_t length, const Tensor& texts, int64_t words) {
  const int64_t count = pool.grams(length);
  Tensor found = Tensor::zeros({texts.size(0), count}, DType::I64);
  const Tensor grams = Tensor::from(
      std::vector<int64_t>(pool.words.begin() + pool.begin(length), pool.words.begin() + pool.end(length)),
      {count, length});
  const int64_t skips = length == 1 ? 0 : pool.max_skip; // one word has nothing between
  for (int64_t skip = 0; skip <= skips && (length - 1) * (skip + 1) < words; ++skip) {
    const Tensor windows = texts.window(1, length, 1, skip + 1).unsqueeze(2);
    found = found + (windows == grams).all({-1}).sum(1);
  }
  return found;
}

std::vector<Value> tfidf_vectorizer(Call& call) {
  const bool strings = call.value(0).is_strings();
  const Tensor input = strings ? string_ids(call, 0) : call.tensor(0);
  const Pool pool = pool_of(call, strings);
  const std::string mode = call.text("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    call.fail(ErrorKind::Value, "mode \"" + mode + "\", expected TF, IDF or TFIDF");
  const std::vector<double> weights = call.numbers("weights", std::vector<double>(pool.columns.size(), 1.0));
  if (weights.size() != pool.columns.size())
    call.fail(ErrorKind::Value, std::to_string(weights.size()) + " weights, expected one for each n-gram");
  if (input.rank() != 1 && input.rank() != 2)
    call.fail(ErrorKind::Shape, "shape " + to_string(input.shape()) + ", expected [words] or [texts, words]");
  const Tensor texts = (input.rank() == 1 ? input.unsqueeze(0) : input).cast(DType::I64);
  const int64_t words = fixed_size(call, texts, 1);

  std::vector<Tensor> counts;
  for (int64_t length = 1; length <= static_cast<int64_t>(pool.starts.size()); ++length) {
    const int64_t grams = pool.grams(length);
    if (grams == 0) continue;
    const bool counted = length >= pool.shortest && length <= pool.longest;
    counts.push_back(counted ? occurrences(pool, length, texts, words)
                             : Tensor::zeros({texts.size(0), grams}, DType::I64));
  }
  const Tensor found = concat(counts, 1);
  const Tensor weight = Tensor::from(weights).cast(DType::F32);
  Tensor features = found.cast(DType::F32);
  if (mode == "IDF") features = (found > 0).cast(DType::F32) * weight;
  if (mode == "TFIDF") features = features * weight;

  // Each column of the result names its n-gram; one past the last reads as 0.
  const int64_t width = *std::max_element(pool.columns.begin(), pool.columns.end()) + 1;
  std::vector<int64_t> gram_of(width, static_cast<int64_t>(pool.columns.size()));
  for (size_t gram = 0; gram < pool.columns.size(); ++gram)
    gram_of[pool.columns[gram]] = static_cast<int64_t>(gram);
  const Tensor result = features.take(Tensor::from(gram_of), 1);
  return {input.rank() == 1 ? slice_at(result, 0, 0) : result};
}

const OpRow kTextOps[] = {{"TfIdfVectorizer", 9, tfidf_vectorizer}};

} // namespace

OpTable text_ops() { return kTextOps; }

} // namespace lathe::onnx
