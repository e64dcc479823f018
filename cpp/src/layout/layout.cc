#include "layout/layout.h"

#include "layout/columnar/columnar_layout.h"
#include "layout/skipstream/skipstream_layout.h"

namespace topicdb {

std::unique_ptr<Layout> MakeLayout(LayoutKind kind, std::uint32_t timestamp_bytes) {
  switch (kind) {
    case LayoutKind::kSkipstream:
      return std::make_unique<skipstream::SkipstreamLayout>(timestamp_bytes);
    case LayoutKind::kColumnar:
      return std::make_unique<columnar::ColumnarLayout>();
  }
  return nullptr;
}

}  // namespace topicdb
