"""How long messages stay: retention classes, generations, and what a plan of them takes."""
