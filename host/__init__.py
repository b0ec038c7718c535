"""The Takoform Host API v2: model, Forms, store, engine and HTTP edge. Knows nothing of workerd or the emulator."""
