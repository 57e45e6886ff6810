// The compiler takes functions without a body only from packages with assembly.
