#include <lz4.h>
#include <zstd.h>

#include "layout/columnar/format/page_format.h"

namespace topicdb::columnar {

namespace {

// Measurements with the workloads of bench/ show that higher levels take longer, and make pages no
// smaller.
constexpr int kZstdLevel = 1;
// How many bytes a compressed byte can stand for at most. Zstandard stores a block of 128 KiB in 4
// bytes or more. A match of LZ4 grows by 255 bytes with each byte.
constexpr std::size_t kZstdRatioMax = 40'000;
constexpr std::size_t kLz4RatioMax = 256;
constexpr std::size_t kSmall = 1'024;  // how many bytes more a body may always have

// Owns a context of Zstandard for decompression.
struct ZstdReader {
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  ZstdReader() = default;
  ~ZstdReader() { ZSTD_freeDCtx(context); }
  ZstdReader(const ZstdReader&) = delete;
  ZstdReader& operator=(const ZstdReader&) = delete;
};

}  // namespace

struct PageCompressor::Contexts {
  ZSTD_CCtx* const zstd = ZSTD_createCCtx();
  Contexts() = default;
  ~Contexts() { ZSTD_freeCCtx(zstd); }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
};

PageCompressor::PageCompressor(PageCodec codec)
    : codec_(codec), contexts_(std::make_unique<Contexts>()) {}

PageCompressor::~PageCompressor() = default;

Status PageCompressor::Compress(std::string_view body, std::string* out) {
  const std::size_t begin = out->size();
  if (codec_ == PageCodec::kLz4) {
    const int bound = LZ4_compressBound(static_cast<int>(body.size()));
    out->resize(begin + static_cast<std::size_t>(bound));
    const int stored = LZ4_compress_default(body.data(), out->data() + begin,
                                            static_cast<int>(body.size()), bound);
    if (stored <= 0) return StorageFault("compressing messages with LZ4 failed");
    out->resize(begin + static_cast<std::size_t>(stored));
    return Status::Ok();
  }
  const std::size_t bound = ZSTD_compressBound(body.size());
  out->resize(begin + bound);
  const std::size_t stored = ZSTD_compressCCtx(contexts_->zstd, out->data() + begin, bound,
                                               body.data(), body.size(), kZstdLevel);
  if (ZSTD_isError(stored) != 0) {
    return StorageFault(std::string("compressing messages: ") + ZSTD_getErrorName(stored));
  }
  out->resize(begin + stored);
  return Status::Ok();
}

bool IsPossibleSize(PageCodec codec, std::size_t stored, std::size_t size) {
  return size <= stored * (codec == PageCodec::kLz4 ? kLz4RatioMax : kZstdRatioMax) + kSmall;
}

Status Decompress(PageCodec codec, std::string_view stored, char* out, std::size_t size) {
  if (codec == PageCodec::kLz4) {
    const int got = LZ4_decompress_safe(stored.data(), out, static_cast<int>(stored.size()),
                                        static_cast<int>(size));
    return got >= 0 && static_cast<std::size_t>(got) == size ? Status::Ok()
                                                             : PageFault("it does not decompress");
  }
  thread_local const ZstdReader reader;  // to make one takes as long as to decompress a page
  const std::size_t got =
      ZSTD_decompressDCtx(reader.context, out, size, stored.data(), stored.size());
  return got == size ? Status::Ok() : PageFault("it does not decompress");
}

Result<std::unique_ptr<char[]>> DecompressBody(PageCodec codec, std::string_view stored,
                                               std::size_t size) {
  if (!IsPossibleSize(codec, stored.size(), size)) return PageFault("its size is wrong");
  auto body = std::make_unique_for_overwrite<char[]>(size);
  TOPICDB_RETURN_IF_ERROR(Decompress(codec, stored, body.get(), size));
  return body;
}

}  // namespace topicdb::columnar
