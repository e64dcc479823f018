"""The life of data: retention classes, generations, and plans of how much disk they take."""
